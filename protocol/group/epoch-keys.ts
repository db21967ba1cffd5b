import { equals, wipe } from '../bytes.ts'
import type { CryptoProvider, KeyedAead } from '../crypto/provider.ts'
import type { Eid } from '../identity/eid.ts'
import { EPOCHS_KEPT } from './bounds.ts'
import type { GroupKey } from './group-key.ts'
import { runCipher } from './group-op.ts'
import { memberSince, type SignedStatement } from './statement.ts'

interface HeldKey {
  readonly statement: SignedStatement
  readonly dgk: Uint8Array
}

/** The keys of a group's epochs that one member holds: sealing takes the newest, opening any. What goes is overwritten. */
export class EpochKeys {
  readonly #crypto: CryptoProvider
  /** at most EPOCHS_KEPT */
  readonly #held = new Map<number, HeldKey>()
  #newest: SignedStatement

  constructor(crypto: CryptoProvider, newest: SignedStatement) {
    this.#crypto = crypto
    this.#newest = newest
  }

  get newest(): SignedStatement {
    return this.#newest
  }

  get size(): number {
    return this.#held.size
  }

  has(epoch: number): boolean {
    return this.#held.has(epoch)
  }

  /** Whether ops can be sealed. */
  get canSeal(): boolean {
    return this.#held.has(this.#newest.epoch)
  }

  /** @returns `newer`: the trust list is another one now; `key`: an epoch can be read that could not; `nothing`: it was known, or is too old */
  take({ statement, dgk }: GroupKey): 'newer' | 'key' | 'nothing' {
    const { epoch } = statement
    const isNewer = epoch > this.#newest.epoch
    if (isNewer) {
      this.#newest = statement
      for (const [old, { dgk: gone }] of this.#held) {
        if (old > epoch - EPOCHS_KEPT) continue
        wipe(gone)
        this.#held.delete(old)
      }
    }
    const isSame = epoch !== this.#newest.epoch || equals(statement.bytes, this.#newest.bytes)
    const isOld = epoch <= this.#newest.epoch - EPOCHS_KEPT
    if (dgk === undefined || isOld || !isSame || this.#held.has(epoch)) return isNewer ? 'newer' : 'nothing'
    this.#held.set(epoch, { statement, dgk })
    return isNewer ? 'newer' : 'key'
  }

  /** Bit i: the key of epoch newest − i is held. */
  get bitmap(): number {
    let bits = 0
    for (const epoch of this.#held.keys()) bits |= 1 << (this.#newest.epoch - epoch)
    return bits >>> 0
  }

  /** The epochs, newest first, whose keys somebody lacks who stands at `epoch` with `keys`, and may have as a member of them. */
  lackedBy(who: Eid, { epoch, keys }: { epoch: number; keys: number }): number[] {
    return [...this.#held]
      .filter(([number, { statement }]) => {
        const back = epoch - number
        const lacks = back < 0 || (back < EPOCHS_KEPT && (keys & (1 << back)) === 0)
        return lacks && memberSince(statement, who) !== undefined
      })
      .map(([number]) => number)
      .sort((a, b) => b - a)
  }

  /** What one epoch's item 0x05 says. */
  get(epoch: number): GroupKey | undefined {
    return this.#held.get(epoch)
  }

  /** Undefined where the epoch's key is not held. */
  cipher(epoch: number, writer: Uint8Array, run: Uint8Array): KeyedAead | undefined {
    const held = this.#held.get(epoch)
    return held === undefined ? undefined : runCipher(this.#crypto, held.dgk, this.#newest.gid, writer, run)
  }

  /** Overwrites every key. */
  wipe(): void {
    for (const { dgk } of this.#held.values()) wipe(dgk)
    this.#held.clear()
  }
}
