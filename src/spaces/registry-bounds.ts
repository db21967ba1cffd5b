/** What a registrar keeps and takes where nothing else is set (protocol/README.md §4). */
export const REGISTRY_BYTES_MAX = 64 * 1_048_576
export const REGISTRY_PUTS_PER_MINUTE_MAX = 32
