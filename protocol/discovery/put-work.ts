/** Bits asked once a set is half full, and when it is full (protocol/README.md §4). */
export const PUT_BITS_FIRST = 12
export const PUT_BITS_FULL = 24
/** No registrar asks for more: a set whose least entry has this many takes no new one. */
export const PUT_BITS_MAX = 32

/**
 * The work that a new or changed entry needs: none while its set is under half full, then 12 bits rising to 24, and in a full set one bit more
 * than the least of those held, at least 24. Above {@link PUT_BITS_MAX} there is no room.
 * @param least - bits of the entry that would have to go; counts in a full set alone
 * @param range - other bits than the protocol's, for simulations
 */
export function putBitsAsked(
  entries: number,
  entriesMax: number,
  least: number,
  { first, full }: { first: number; full: number } = { first: PUT_BITS_FIRST, full: PUT_BITS_FULL }
): number {
  if (entries * 2 < entriesMax) return 0
  if (entries >= entriesMax) return Math.max(full, least + 1)
  return first + Math.floor(((full - first) * (entries * 2 - entriesMax)) / entriesMax)
}
