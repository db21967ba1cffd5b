import type { CryptoProvider } from '../crypto/provider.ts'
import { context } from '../identity/contexts.ts'

const LABEL = context('pss-target')

export const TARGET_BYTES = 16

/** Names the responder's EID to nobody who does not know it: H("rookery/v1/pss-target" ‖ 0x00 ‖ EID_R ‖ nonceI)[0..16). */
export function initTarget(crypto: CryptoProvider, eidR: Uint8Array, nonceI: Uint8Array): Uint8Array {
  return crypto.sha256(LABEL, eidR, nonceI).slice(0, TARGET_BYTES)
}
