import { base58btc } from 'multiformats/bases/base58'
import type { PeerIds } from '../../protocol/session/key-schedule.ts'
import type { ConnectionInfo } from '../net/byte-stream.ts'

/** A PeerId's binary form (a multihash) from its text. */
export function peerBytes(peer: string): Uint8Array {
  return base58btc.baseDecode(peer)
}

export function peerText(peer: Uint8Array): string {
  return base58btc.baseEncode(peer)
}

/** Both ends of a connection, by their part in a handshake. */
export function peerIds(self: string, connection: ConnectionInfo, role: 'initiator' | 'responder'): PeerIds {
  const [own, other] = [peerBytes(self), peerBytes(connection.peer)]
  return role === 'initiator' ? { initiator: own, responder: other } : { initiator: other, responder: own }
}
