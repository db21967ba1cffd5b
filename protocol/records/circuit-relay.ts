import type { CryptoProvider } from '../crypto/provider.ts'
import { context } from '../identity/contexts.ts'
import type { Eid } from '../identity/eid.ts'
import { type RecordPayload, type RecordType, type SignedRecord, textItem } from './envelope.ts'
import { ADDR, ADDR_BYTES_MAX } from './locator.ts'
import { byNumber, type Selection } from './selection.ts'

/** A relay that says no more is forgotten after this. */
export const CIRCUIT_RELAY_TTL_SEC = 3_600
export const CIRCUIT_RELAY_ADDRS_MAX = 4
export const CIRCUIT_RELAY_BYTES_MAX = 1_024

/**
 * A node that carries connections for nodes which nobody can dial (protocol/README.md §3, `relay`). It is signed by the key of its PeerId, which
 * is no agent's, so it says of no agent where it is.
 */
export interface CircuitRelay extends RecordPayload {
  /** Ed25519 public key that the PeerId is made of, 32 bytes */
  readonly node: Uint8Array
  /** where it can be dialled, at most 4; none in a tombstone */
  readonly addrs: readonly string[]
}

export type CircuitRelayRecord = SignedRecord<'relay', CircuitRelay>

export const circuitRelayType: RecordType<'relay', CircuitRelay> = {
  kind: 'relay',
  bytesMax: CIRCUIT_RELAY_BYTES_MAX,
  ttlSec: CIRCUIT_RELAY_TTL_SEC,
  toCbor: (p) => ({ node: p.node, addrs: [...p.addrs] }),
  fromCbor: (fields, times) => ({
    node: fields.bytes('node', { length: 32 }),
    addrs: fields.list('addrs', { max: CIRCUIT_RELAY_ADDRS_MAX }, textItem('relay.addrs', ADDR_BYTES_MAX, ADDR)),
    ...times
  }),
  signer: (p) => p.node as Eid,
  sequence: () => undefined,
  dhtKey: () => undefined
}

/** The one key of the registry set `relays`: H("rookery/v1/relays" ‖ 0x00). */
export function circuitRelaysKey(crypto: CryptoProvider): Uint8Array {
  return crypto.sha256(context('relays'))
}

/** This node carries nothing any more. */
export function circuitRelayTombstone({ node }: CircuitRelay, nowSec: number): CircuitRelay {
  return { node, addrs: [], ts: nowSec, exp: nowSec + CIRCUIT_RELAY_TTL_SEC, gone: true }
}

/** The higher `ts`. Both records are valid and of one node. */
export function selectCircuitRelay(held: CircuitRelayRecord, offered: CircuitRelayRecord): Selection {
  return byNumber(
    { number: held.payload.ts, bytes: held.payloadBytes },
    { number: offered.payload.ts, bytes: offered.payloadBytes },
    'older'
  )
}
