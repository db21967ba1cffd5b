import { wipe } from '../bytes.ts'
import type { Eid } from '../identity/eid.ts'
import type { CookiePair } from './cookie.ts'
import type { SfcBlock } from './sfc.ts'

/** Who sent INIT in the current exchange. */
export type Role = 'initiator' | 'responder'

/** What one direction is sealed with, from generation 0. */
export interface DirectionKeys {
  /** traffic key, AES-256-GCM, 32 bytes */
  readonly key: Uint8Array
  /** 12 bytes */
  readonly iv: Uint8Array
  /** h_0 of the rolling hash, 32 bytes; of use in a first handshake only, as a resumed session keeps its chains */
  readonly chain: Uint8Array
}

/** Secrets of one epoch. The directions are those of the current exchange, not of the session's first one. */
export interface SessionKeys {
  readonly i2r: DirectionKeys
  readonly r2i: DirectionKeys
  /** 32 bytes for uses beyond the stream */
  readonly export: Uint8Array
}

/** What a finished handshake leaves behind (protocol/README.md §6). Its owner wipes it with {@link wipeEstablished} when the epoch ends. */
export interface Established {
  /** one's role in the current exchange */
  readonly role: Role
  /** session id, 16 bytes: of this handshake, or the resume id where `flags` has RESUME */
  readonly sid: Uint8Array
  /** th3 of the current exchange, 32 bytes */
  readonly epoch: Uint8Array
  readonly localEid: Eid
  readonly remoteEid: Eid
  readonly cookies: CookiePair
  /** NEG's flags: what both sides agreed on */
  readonly flags: number
  /** present when `flags` has SFC */
  readonly sfc?: SfcBlock
  readonly keys: SessionKeys
}

/** Overwrites what the two directions began with. Once the stream has its own copies, a rekey could not forget what still stood here. */
export function wipeDirections({ i2r, r2i }: SessionKeys): void {
  for (const { key, iv, chain } of [i2r, r2i]) wipe(key, iv, chain)
}

/** Overwrites every secret of the epoch. */
export function wipeEstablished({ keys }: Established): void {
  wipeDirections(keys)
  wipe(keys.export)
}
