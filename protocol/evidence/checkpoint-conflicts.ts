import { equals, toHex } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { type Eid, eid } from '../identity/eid.ts'
import type { Evidence } from './proof.ts'
import { openCheckpoint, type SignedCheckpoint } from './signed-checkpoint.ts'

/**
 * The proofs of malfeasance among many checkpoints: pairs of one signer, session, epoch, direction and seq with different hashes. What is no
 * valid checkpoint proves nothing and is passed over. An honest node's are free of them, whatever crashes it went through.
 * @param checkpoints - 185 bytes each; the caller bounds how many
 */
export function findConflicts(crypto: CryptoProvider, checkpoints: readonly Uint8Array[]): Evidence[] {
  const first = new Map<string, SignedCheckpoint>()
  const conflicts: Evidence[] = []
  for (const bytes of checkpoints) {
    const one = opened(crypto, bytes)
    if (one === undefined) continue
    const point = `${toHex(one.eid)}:${toHex(one.sid)}:${toHex(one.epoch)}:${one.direction}:${one.seq}`
    const held = first.get(point)
    if (held === undefined) first.set(point, one)
    else if (!equals(held.hash, one.hash)) conflicts.push({ target: eid(one.eid) as Eid, kind: 'checkpoint', a: held.bytes, b: bytes })
  }
  return conflicts
}

function opened(crypto: CryptoProvider, bytes: Uint8Array): SignedCheckpoint | undefined {
  try {
    return openCheckpoint(crypto, bytes)
  } catch (error) {
    if (error instanceof ProtocolError) return undefined
    throw error
  }
}
