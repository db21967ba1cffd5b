import { concat, Reader, toHex, Writer } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import type { Brand } from '../identity/eid.ts'
import { compressBlock, SHA256_INITIAL } from './sha256-block.ts'

/** What a proof of work is bound to, 32 bytes: {@link requestSeed} or {@link putSeed}. */
export type WorkSeed = Brand<Uint8Array, 'WorkSeed'>

export const WORK_SEED_BYTES = 32
export const WORK_NONCE_BYTES = 8
/** Difficulties of requests, in bits. */
export const WORK_BITS_MIN = 16
export const WORK_BITS_MAX = 32
/** A solver gives up above this, whatever it is asked for (protocol/README.md §5). */
export const SOLVER_BITS_MAX = 24

/** The part of a request's header that its work covers; byte 4, the hops left, counts as zero. */
export const WORK_HEADER_BYTES = 112
const HOPS_AT = 4
const REQUEST_CONTEXT = context('pow')
const PUT_CONTEXT = context('put-pow')

/** The context and the header are 127 bytes: with the padding three blocks of 64. */
const SEED_BLOCKS = 3
const seedInput = new Uint8Array(SEED_BLOCKS * 64)
seedInput.set(REQUEST_CONTEXT)
seedInput[REQUEST_CONTEXT.length + WORK_HEADER_BYTES] = 0x80
const seedInputView = new DataView(seedInput.buffer)
seedInputView.setUint32(seedInput.length - 4, (REQUEST_CONTEXT.length + WORK_HEADER_BYTES) * 8)

// Scratch of this module: everything here runs to its end before anything else does.
const w = new Int32Array(64)
const state = new Int32Array(8)

/** Hashes the context and `header` into `state`. */
function hashHeader(header: Uint8Array): void {
  for (let i = 0; i < WORK_HEADER_BYTES; i++) seedInput[REQUEST_CONTEXT.length + i] = header[i] as number
  seedInput[REQUEST_CONTEXT.length + HOPS_AT] = 0
  state.set(SHA256_INITIAL)
  for (let block = 0; block < SEED_BLOCKS; block++) {
    for (let i = 0; i < 16; i++) w[i] = seedInputView.getInt32(block * 64 + i * 4)
    compressBlock(state, w)
  }
}

/** Hashes the seed that `w[0..8)` holds and the nonce in `w[8..10)` into `state`. */
function hashTry(): void {
  w[10] = 0x80000000
  for (let i = 11; i < 15; i++) w[i] = 0
  w[15] = (WORK_SEED_BYTES + WORK_NONCE_BYTES) * 8
  state.set(SHA256_INITIAL)
  compressBlock(state, w)
}

function word(bytes: Uint8Array, at: number): number {
  return ((bytes[at] as number) << 24) | ((bytes[at + 1] as number) << 16) | ((bytes[at + 2] as number) << 8) | (bytes[at + 3] as number)
}

function leadingZeros(): number {
  let bits = 0
  for (let i = 0; i < 8; i++) {
    const zeros = Math.clz32(state[i] as number)
    bits += zeros
    if (zeros < 32) break
  }
  return bits
}

/**
 * How many leading zero bits the work of a request has: two short hashes and no allocation.
 * @param header - at least the 120 bytes of a DISCOVERY_REQ's header
 */
export function requestWorkBits(header: Uint8Array): number {
  hashHeader(header)
  for (let i = 0; i < 8; i++) w[i] = state[i] as number
  w[8] = word(header, WORK_HEADER_BYTES)
  w[9] = word(header, WORK_HEADER_BYTES + 4)
  hashTry()
  return leadingZeros()
}

/** `H("rookery/v1/pow" ‖ 0x00 ‖ header[0..112) with byte 4 zeroed)`: what all that belongs to one request is bound to. */
export function requestSeed(header: Uint8Array): WorkSeed {
  hashHeader(header)
  const seed = new Writer(WORK_SEED_BYTES)
  for (const value of state) seed.u32(value >>> 0)
  return seed.finish() as WorkSeed
}

/** The seed of the work that a registrar under load asks of a PUT: `H("rookery/v1/put-pow" ‖ 0x00 ‖ key ‖ H(record))`. */
export function putSeed(crypto: CryptoProvider, key: Uint8Array, record: Uint8Array): WorkSeed {
  return crypto.sha256(concat([PUT_CONTEXT, key, crypto.sha256(record)])) as WorkSeed
}

/** Leading zero bits, most significant first, of `H(seed ‖ nonce)`. Lengths are the caller's to check: 32 and 8. */
export function workBits(seed: Uint8Array, nonce: Uint8Array): number {
  for (let i = 0; i < 8; i++) w[i] = word(seed, i * 4)
  w[8] = word(nonce, 0)
  w[9] = word(nonce, 4)
  hashTry()
  return leadingZeros()
}

/** @throws ProtocolError `LENGTH` */
export function workSeed(bytes: Uint8Array): WorkSeed {
  if (bytes.length !== WORK_SEED_BYTES)
    throw new ProtocolError('LENGTH', `a work seed is ${WORK_SEED_BYTES} bytes, not ${bytes.length}`, { field: 'seed' })
  return bytes as WorkSeed
}

export function nonceBytes(nonce: bigint): Uint8Array {
  return new Writer(WORK_NONCE_BYTES).u64(nonce).finish()
}

export function nonceOf(bytes: Uint8Array): bigint {
  return new Reader(bytes).u64('nonce')
}

/** A seed as a map key. */
export function seedHex(seed: WorkSeed): string {
  return toHex(seed)
}
