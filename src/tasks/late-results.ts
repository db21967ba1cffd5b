import { toHex, utf8 } from '../../protocol/bytes.ts'
import { canonicalJson } from '../../protocol/canonical-json.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import { ENVELOPE_DEPTH_MAX, holdsHalfSurrogate, tooDeep } from './json-bounds.ts'
import type { JsonObject, LateResult, Todo } from './todo.ts'

/** Of one Todo; what comes after them is logged alone. */
export const LATE_RESULTS_MAX = 4
export const LATE_CONTENT_CHARS_MAX = 65_536

/** Results of holders who had lost their lease: audit, never state (G-59). They go with their Todo. */
export class LateResults {
  readonly #rows: Table<LateResult[]>
  readonly #crypto: CryptoProvider

  constructor({ store, crypto }: { store: Store; crypto: CryptoProvider }) {
    this.#rows = store.table('todo-late', jsonCodec<LateResult[]>())
    this.#crypto = crypto
  }

  async of(id: string): Promise<LateResult[]> {
    return (await this.#rows.get(id)) ?? []
  }

  /** None at the bound, none of who never held the Todo, and none that has no canonical text. */
  async put(todo: Todo, late: Pick<LateResult, 'atMs' | 'holder' | 'act'>, content: JsonObject): Promise<WriteOp[]> {
    const held = todo.trail?.some(({ kind, who }) => kind === 'claimed' && who === late.holder) === true
    const before = await this.of(todo.id)
    if (!held || before.length >= LATE_RESULTS_MAX || tooDeep(content) || holdsHalfSurrogate(content)) return []
    const text = canonicalJson(content, ENVELOPE_DEPTH_MAX)
    const digest = toHex(this.#crypto.sha256(utf8(text)))
    const whole = text.length <= LATE_CONTENT_CHARS_MAX ? { content } : {}
    return [this.#rows.put(todo.id, [...before, { ...late, digest, bytes: utf8(text).length, ...whole }])]
  }

  del(id: string): WriteOp {
    return this.#rows.del(id)
  }
}
