import { sha256 } from '@noble/hashes/sha2.js'
import { nodeBuiltin } from './builtin.ts'

/** SHA-256 over what comes piece by piece. */
export interface RunningHash {
  update(bytes: Uint8Array): unknown
  /** 32 bytes; the last call */
  digest(): Uint8Array
}

export function runningSha256(): RunningHash {
  return nodeBuiltin('node:crypto')?.createHash('sha256') ?? sha256.create()
}
