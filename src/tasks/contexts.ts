import { toHex, utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import { contextInvalid } from './todo-errors.ts'

const CONTEXT_ID = /^[A-Za-z0-9._:-]{1,128}$/

/** Whose each context id is: no caller's messages go into another's context. */
export class Contexts {
  readonly #owners: Table<string>
  readonly #crypto: CryptoProvider

  constructor({ store, crypto }: { store: Store; crypto: CryptoProvider }) {
    this.#owners = store.table('todo-context', jsonCodec<string>())
    this.#crypto = crypto
  }

  /** @throws RookeryError `CONTEXT_INVALID` for an id of another form, and for one that is another caller's */
  async check(contextId: string, caller: string): Promise<void> {
    if (!CONTEXT_ID.test(contextId)) throw contextInvalid()
    const owner = await this.#owners.get(this.#key(contextId))
    if (owner !== undefined && owner !== caller) throw contextInvalid()
  }

  put(contextId: string, caller: string): WriteOp {
    return this.#owners.put(this.#key(contextId), caller)
  }

  del(contextId: string): WriteOp {
    return this.#owners.del(this.#key(contextId))
  }

  #key(contextId: string): string {
    return toHex(this.#crypto.sha256(utf8(contextId)))
  }
}
