import { concat, Reader, Writer, wipe } from '../bytes.ts'
import type { CryptoProvider, KeyedAead } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import type { Eid } from '../identity/eid.ts'

export const ESE_ID_BYTES = 16
export const ESE_RUN_BYTES = 16
/** What stands in clear before a sealed batch or view part. */
export const ESE_HEAD_BYTES = ESE_ID_BYTES + ESE_RUN_BYTES + 8

const SEED_BYTES = 32
const LABEL = {
  seed: context('ese-seed'),
  next: context('ese-next'),
  id: context('ese-id'),
  op: context('ese-op'),
  view: context('ese-view')
}

/** What a key of an ESE seals. */
export type EseUse = 'op' | 'view'

/** A position in what one process of one side sealed. */
export interface EsePoint {
  /** 16 random bytes, new at every start, never stored */
  readonly run: Uint8Array
  /** from 1 */
  readonly n: bigint
}

export interface EseHead extends EsePoint {
  readonly id: Uint8Array
}

/**
 * The seed of the ESE that `writer` writes in a session: Expand(export of the session's first exchange, seed ‖ sid ‖ EID). Both sides make the same
 * one; nobody else can, and without it nothing of the ESE opens (ESE-03).
 */
export function eseSeed(crypto: CryptoProvider, exported: Uint8Array, sid: Uint8Array, writer: Eid): Uint8Array {
  return crypto.hkdfExpand(exported, concat([LABEL.seed, sid, writer]), SEED_BYTES)
}

/** After a rotation of the writer: Expand(seed, next ‖ new EID). The one before cannot be made from it; its owner wipes it. */
export function nextEseSeed(crypto: CryptoProvider, seed: Uint8Array, next: Eid): Uint8Array {
  return crypto.hkdfExpand(seed, concat([LABEL.next, next]), SEED_BYTES)
}

/** H(id ‖ sid ‖ EID)[0..16): names the ESE of one writer under one EID in one session. */
export function eseId(crypto: CryptoProvider, sid: Uint8Array, writer: Eid): Uint8Array {
  return crypto.sha256(LABEL.id, sid, writer).slice(0, ESE_ID_BYTES)
}

/** @returns views into `payload`. @throws ProtocolError `TRUNCATED` */
export function readEseHead(payload: Uint8Array): EseHead {
  const reader = new Reader(payload)
  return { id: reader.bytes(ESE_ID_BYTES, 'ese.id'), run: reader.bytes(ESE_RUN_BYTES, 'ese.run'), n: reader.u64('ese.n') }
}

/** Expand(seed, op or view ‖ id ‖ run): a key for each start of a process, so that no nonce comes twice. */
function keyed(crypto: CryptoProvider, seed: Uint8Array, use: EseUse, { id, run }: { id: Uint8Array; run: Uint8Array }): KeyedAead {
  const key = crypto.hkdfExpand(seed, concat([LABEL[use], id, run]), SEED_BYTES)
  const aead = crypto.aead.keyed(key)
  wipe(key)
  return aead
}

function nonceOf(n: bigint): Uint8Array {
  return new Writer(12).u32(0).u64(n).finish()
}

/** Seals what one process sends of one ESE: `id 16 ‖ run 16 ‖ n u64 ‖ AEAD(key of the run, nonce = u32 0 ‖ n, aad = the 40 bytes before)`. */
export class EseSealer {
  readonly id: Uint8Array
  readonly run: Uint8Array
  readonly #aead: KeyedAead
  #n = 0n

  constructor(crypto: CryptoProvider, seed: Uint8Array, { id, run, use }: { id: Uint8Array; run: Uint8Array; use: EseUse }) {
    this.id = id
    this.run = run
    this.#aead = keyed(crypto, seed, use, { id, run })
  }

  /** The number of what was sealed last, 0 before the first. */
  get n(): bigint {
    return this.#n
  }

  /** @returns a payload that shares nothing with `plaintext` */
  seal(plaintext: Uint8Array): Uint8Array {
    const n = this.#n + 1n
    const head = new Writer(ESE_HEAD_BYTES).bytes(this.id).bytes(this.run).u64(n).finish()
    const payload = concat([head, this.#aead.seal(nonceOf(n), head, plaintext)])
    this.#n = n
    return payload
  }
}

/** Runs whose keys are kept ready: a peer has one at a time. */
const RUNS_KEPT = 2

/** Opens what {@link EseSealer} sealed. */
export class EseOpener {
  readonly #crypto: CryptoProvider
  readonly #seed: Uint8Array
  readonly #use: EseUse
  /** newest last; at most RUNS_KEPT */
  #runs: { run: Uint8Array; aead: KeyedAead }[] = []

  /** @param seed - copied; {@link forget} overwrites the copy */
  constructor(crypto: CryptoProvider, seed: Uint8Array, use: EseUse) {
    this.#crypto = crypto
    this.#seed = new Uint8Array(seed)
    this.#use = use
  }

  /** @throws ProtocolError `TRUNCATED`, `AEAD_OPEN` */
  open(payload: Uint8Array): { head: EseHead; plaintext: Uint8Array } {
    const head = readEseHead(payload)
    const name = head.run
    let held = this.#runs.find(({ run }) => run.every((byte, i) => byte === name[i]))
    if (held === undefined) {
      held = { run: name.slice(), aead: keyed(this.#crypto, this.#seed, this.#use, head) }
      this.#runs = [...this.#runs.slice(1 - RUNS_KEPT), held]
    }
    const plaintext = held.aead.open(nonceOf(head.n), payload.subarray(0, ESE_HEAD_BYTES), payload.subarray(ESE_HEAD_BYTES))
    if (plaintext === undefined) throw new ProtocolError('AEAD_OPEN', 'an ESE item does not open', { field: 'ese' })
    return { head, plaintext }
  }

  forget(): void {
    wipe(this.#seed)
    this.#runs = []
  }
}
