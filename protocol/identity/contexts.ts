import { concat, utf8 } from '../bytes.ts'

/**
 * The domain separator `rookery/v1/<label>` ‖ 0x00 that starts whatever we sign or derive, so that no bytes made for one purpose
 * pass for another (protocol/README.md §0 and §1).
 */
export function context(label: string): Uint8Array {
  return concat([utf8(`rookery/v1/${label}`), new Uint8Array(1)])
}
