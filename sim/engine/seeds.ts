import { utf8 } from '../../protocol/bytes.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { Random } from '../../src/platform/random.ts'

/** 32 bytes that follow from the run's seed, what they are for, and for which node. */
export function derivedBytes(seed: number, purpose: string, index = 0): Uint8Array {
  return nodeCrypto.sha256(utf8(`rookery/sim/${purpose}\0${seed}\0${index}`))
}

/** A stream of bytes of its own for each purpose and node; never for a real node's keys. */
export function derivedRandom(seed: number, purpose: string, index = 0): Random {
  let block = new Uint8Array(0)
  let at = 0
  let count = 0
  const next = (): number => {
    if (at === block.length) {
      block = new Uint8Array(nodeCrypto.sha256(utf8(`rookery/sim/${purpose}\0${seed}\0${index}\0${count++}`)))
      at = 0
    }
    return block[at++] as number
  }
  return { bytes: (length) => Uint8Array.from({ length }, next) }
}
