/** What @hpke/common looks for in old releases of Node alone. */
export const webcrypto = globalThis.crypto
