import type { CryptoProvider } from '../../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../../protocol/errors.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { RookeryError } from '../../../src/errors.ts'
import { mutateCbor } from '../engine/mutate-cbor.ts'
import { vectorBytes } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'

/** Takes every signature, so that what comes after it is reached. Honest in all else. */
export const trusting: CryptoProvider = { ...nodeCrypto, ed25519: { ...nodeCrypto.ed25519, verify: () => true, isValidKey: () => true } }

/** A moment at which the vectors hold. */
export const NOW_MS = 1_800_000_000_000

/** The value, or undefined where it was refused as the protocol refuses. Anything else that is thrown goes on. */
export function refusedOr<T>(act: () => T): T | undefined {
  try {
    return act()
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof RookeryError) return undefined
    throw error
  }
}

export async function refusedOrLater<T>(act: () => Promise<T>): Promise<T | undefined> {
  try {
    return await act()
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof RookeryError) return undefined
    throw error
  }
}

export function mustBe(held: boolean, promise: string): asserts held {
  if (!held) throw new Error(`broken promise: ${promise}`)
}

export function mustEqual(a: Uint8Array, b: Uint8Array, promise: string): void {
  mustBe(Buffer.compare(a, b) === 0, promise)
}

/** Vectors that are longer than this are left out of the seeds. */
const SEED_BYTES_MAX = 8_192

interface CodecInit<T> {
  readonly name: string
  /** vector files whose bytes are the seeds */
  readonly vectors: readonly string[]
  readonly decode: (bytes: Uint8Array) => T
  /** where a value has one encoding only */
  readonly encode?: (value: T) => Uint8Array
  readonly bytesMax?: number
  readonly words?: readonly string[]
  readonly more?: () => Iterable<Uint8Array>
}

/** A decoder: any bytes give a value or a refusal, and a value is written as it came. */
export function codec<T>({ name, vectors, decode, encode, bytesMax = 4_096, words = [], more }: CodecInit<T>): FuzzTarget {
  return {
    name,
    bytesMax,
    mutators: [mutateCbor(words)],
    seeds: () => [...vectorBytes(vectors), ...(more?.() ?? [])].filter(({ length }) => length <= SEED_BYTES_MAX),
    run(bytes) {
      const before = bytes.slice()
      const value = refusedOr(() => decode(bytes))
      mustEqual(bytes, before, 'a decoder leaves its input as it is')
      if (value !== undefined && encode !== undefined) mustEqual(encode(value), before, 'what was decoded is written as it came')
    }
  }
}
