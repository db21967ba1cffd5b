import { wipe } from '../bytes.ts'
import type { CryptoProvider, KeyedAead } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import { LazyMap } from '../lazy.ts'

const REKEY_CONTEXT = context('pss-rekey')
const KEY_BYTES = 32
const IV_BYTES = 12
const GENERATION_MAX = 0xffff
const COUNT_BITS = 48n
const COUNT_MASK = (1n << COUNT_BITS) - 1n

/** A receiver tries generations up to this far above the newest that opened: streams may overtake each other by more than one. */
const GENERATIONS_AHEAD_MAX = 4
/** Old generations that a receiver holds; a stream that lags further behind no longer opens, which ends the epoch. */
const GENERATIONS_HELD_MAX = 16

/** When a sender moves to the next generation, whichever comes first (protocol/README.md §6). */
export interface RekeyLimits {
  recordsMax: number
  bytesMax: number
  ageMsMax: number
}

export const REKEY_LIMITS: RekeyLimits = { recordsMax: 2 ** 20, bytesMax: 2 ** 30, ageMsMax: 3_600_000 }

export interface TrafficKey {
  key: Uint8Array
  iv: Uint8Array
}

/** A generation in use: its secrets, and the cipher with the key taken in. */
interface Generation extends TrafficKey {
  aead: KeyedAead
}

function generation(crypto: CryptoProvider, { key, iv }: TrafficKey): Generation {
  return { key, iv, aead: crypto.aead.keyed(key) }
}

function copied({ key, iv }: TrafficKey): TrafficKey {
  return { key: key.slice(), iv: iv.slice() }
}

/** key ‖ IV of generation g+1 = Expand(key_g, rekey, 44). */
export function nextTrafficKey(crypto: CryptoProvider, current: TrafficKey): TrafficKey {
  const okm = crypto.hkdfExpand(current.key, REKEY_CONTEXT, KEY_BYTES + IV_BYTES)
  return { key: okm.slice(0, KEY_BYTES), iv: okm.slice(KEY_BYTES) }
}

/** nonce = IV xor rec right-aligned in 12 bytes. */
export function recordNonce(iv: Uint8Array, rec: bigint): Uint8Array {
  const nonce = iv.slice()
  const view = new DataView(nonce.buffer)
  view.setBigUint64(4, view.getBigUint64(4) ^ rec)
  return nonce
}

export function recordNumber(generation: number, count: bigint): bigint {
  return (BigInt(generation) << COUNT_BITS) | count
}

export function generationOf(rec: bigint): number {
  return Number(rec >> COUNT_BITS)
}

/** The sending direction's keys: hands out every record number once. */
export class SendKeys {
  readonly #crypto: CryptoProvider
  readonly #limits: RekeyLimits
  #current: Generation
  #generation = 0
  #count = 0n
  #bytes = 0
  #sinceMs: number

  constructor(crypto: CryptoProvider, first: TrafficKey, limits: RekeyLimits, nowMs: number) {
    this.#crypto = crypto
    this.#limits = limits
    this.#current = generation(crypto, copied(first))
    this.#sinceMs = nowMs
  }

  get generation(): number {
    return this.#generation
  }

  /**
   * The cipher, nonce and number of the next record of `bytes`.
   * @throws ProtocolError `REKEY_REQUIRED` when every generation is used up: only a new exchange gives more keys
   */
  take(bytes: number, nowMs: number): { aead: KeyedAead; nonce: Uint8Array; rec: bigint } {
    const { recordsMax, bytesMax, ageMsMax } = this.#limits
    if (this.#count > 0n && (this.#count >= BigInt(recordsMax) || this.#bytes >= bytesMax || nowMs - this.#sinceMs >= ageMsMax)) {
      this.#advance(nowMs)
    }
    if (this.#count > COUNT_MASK) throw new ProtocolError('REKEY_REQUIRED', 'the record numbers of this generation are used up')
    const rec = recordNumber(this.#generation, this.#count)
    this.#count += 1n
    this.#bytes += bytes
    return { aead: this.#current.aead, nonce: recordNonce(this.#current.iv, rec), rec }
  }

  #advance(nowMs: number): void {
    if (this.#generation === GENERATION_MAX) throw new ProtocolError('REKEY_REQUIRED', 'all key generations of this epoch are used up')
    const next = generation(this.#crypto, nextTrafficKey(this.#crypto, this.#current))
    wipe(this.#current.key, this.#current.iv)
    this.#current = next
    this.#generation += 1
    this.#count = 0n
    this.#bytes = 0
    this.#sinceMs = nowMs
  }

  wipe(): void {
    wipe(this.#current.key, this.#current.iv)
  }
}

/**
 * The receiving direction's keys. Moves to a generation only when a record that names it has opened; keeps an old one until every stream
 * has passed it, and the one before the newest in any case, for a stream whose first record is still on its way.
 */
export class ReceiveKeys {
  readonly #crypto: CryptoProvider
  /** at most GENERATIONS_HELD_MAX + GENERATIONS_AHEAD_MAX entries */
  readonly #held = new LazyMap<number, Generation>()
  /** the newest generation seen on each stream; at most as many entries as the session has streams */
  readonly #streams = new LazyMap<number, number>()
  #newest = 0

  constructor(crypto: CryptoProvider, first: TrafficKey) {
    this.#crypto = crypto
    this.#held.set(0, generation(crypto, copied(first)))
  }

  get generationsHeld(): number {
    return this.#held.size
  }

  /** The keys for a record that names generation `number`, or undefined where none is held or due. */
  for(number: number): Generation | undefined {
    if (number <= this.#newest) return this.#held.get(number)
    if (number > this.#newest + GENERATIONS_AHEAD_MAX) return undefined
    for (let g = this.#newest; g < number; g++) {
      const from = this.#held.get(g)
      if (from === undefined) return undefined
      if (!this.#held.has(g + 1)) this.#held.set(g + 1, generation(this.#crypto, nextTrafficKey(this.#crypto, from)))
    }
    return this.#held.get(number)
  }

  /** A record of `generation` opened on `stream`. */
  opened(stream: number, generation: number): void {
    const before = this.#streams.get(stream)
    if (before !== undefined && generation <= before && generation <= this.#newest) return
    this.#streams.set(stream, Math.max(generation, before ?? 0))
    this.#newest = Math.max(this.#newest, generation)
    let oldest = Math.max(0, this.#newest - 1)
    for (const passed of this.#streams.values()) oldest = Math.min(oldest, passed)
    oldest = Math.max(oldest, this.#newest - GENERATIONS_HELD_MAX)
    for (const [held, { key, iv }] of this.#held) {
      if (held >= oldest) continue
      wipe(key, iv)
      this.#held.delete(held)
    }
  }

  wipe(): void {
    for (const { key, iv } of this.#held.values()) wipe(key, iv)
    this.#held.clear()
  }
}
