import { concat, equalsConstantTime, fromHex, toHex, utf8 } from '../../protocol/bytes.ts'
import { canonicalJson } from '../../protocol/canonical-json.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { RookeryError } from '../errors.ts'
import { slotsOf } from './slots.ts'
import type { TodoFilter } from './todo.ts'

const MAC_BYTES = 16
const CURSOR_CHARS_MAX = 512

/** Page tokens: a place in a listing, sealed to the filter that it was given for (TD-Q3). */
export class TodoCursors {
  readonly #crypto: CryptoProvider
  readonly #key: Uint8Array

  constructor(crypto: CryptoProvider, key: Uint8Array) {
    this.#crypto = crypto
    this.#key = key
  }

  seal(filter: TodoFilter, at: string): string {
    return toHex(concat([this.#mac(filter, at), utf8(at)]))
  }

  /** @throws RookeryError `CURSOR_INVALID` */
  open(filter: TodoFilter, cursor: string): string {
    const refused = new RookeryError('CURSOR_INVALID', 'the page token is not one that this listing gave out', {
      kind: 'usage',
      field: 'pageToken',
      remedy: 'start again without a page token, with the same filter on every page'
    })
    if (cursor.length > CURSOR_CHARS_MAX) throw refused
    let bytes: Uint8Array
    try {
      bytes = fromHex(cursor)
    } catch {
      throw refused
    }
    const at = new TextDecoder().decode(bytes.subarray(MAC_BYTES))
    if (!equalsConstantTime(bytes.subarray(0, MAC_BYTES), this.#mac(filter, at))) throw refused
    return at
  }

  #mac(filter: TodoFilter, at: string): Uint8Array {
    const { agent = null, caller = null, contextId = null, changedFromMs = null } = filter
    const bound = canonicalJson({ agent, caller, contextId, changedFromMs, slots: [...slotsOf(filter)].sort(), at })
    return this.#crypto.hmacSha256(this.#key, utf8(bound)).subarray(0, MAC_BYTES)
  }
}
