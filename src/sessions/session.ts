import type { Eid } from '../../protocol/identity/eid.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { PeerAddress } from '../net/host.ts'

/** A transaction or live item as the peer sent it. */
export interface Inbound {
  channel: number
  /** wire.md §6, Kinds: below 0x80 durable */
  kind: number
  payload: Uint8Array
}

/** Facts of an open session, for `rookery session`, `status` and the demo. */
export interface SessionInfo {
  /** session id, 16 bytes in hex */
  id: string
  local: string
  remote: string
  role: 'initiator' | 'responder'
  state: 'established' | 'closing' | 'closed'
  transport: string
  remoteAddr: string
  /** from sending INIT to holding the peer's READY */
  handshakeMs: number
  /** round trips that the handshake took: 1 for INIT/NEG, 1 for ACK/READY, one more after a RETRY */
  roundTrips: number
  cookies: { initiator: string; responder: string }
  /** transactions sent, acked by the peer, received and acked by us */
  txSeq: string
  txAcked: string
  rxSeq: string
  openedAtMs: number
}

/** A Persistent State Session (wire.md §6) between one of our agents and a remote one. */
export interface Session {
  readonly local: LocalAgent
  readonly remote: Eid
  info(): SessionInfo
  /**
   * Sends one item. For durable kinds (below 0x80) it resolves when the peer has acknowledged, that is synced its effect; for live kinds when the
   * transport took it. Waits for the channel's window. The payload is not copied: it must not change until then.
   * @throws RookeryError `SESSION_CLOSED`, `SESSION_LOST` (data.outcome: `unknown`, or `not-sent` where it surely did not leave),
   *   `SESSION_QUEUE_FULL`, `CHANNELS_MAX`, `MESSAGE_TOO_LARGE`; or the signal's reason
   */
  send(channel: number, kind: number, payload: Uint8Array, options?: { signal?: AbortSignal }): Promise<void>
  /**
   * Serves a channel. The handler is called in the channel's order, without waiting for the call before: what it syncs can share one commit. What
   * comes before a channel is served waits for its handler (1 MiB a session, then the session is closed). Payloads are views of a record: copy
   * what you keep. A transaction is acknowledged when the handler's promise resolves; so a handler resolves once the effect is synced, and
   * goes on with longer work by itself. A handler that throws closes the session (VIOLATION is ours to avoid: handlers answer errors in band).
   */
  onChannel(channel: number, handler: (item: Inbound) => Promise<void>): void
  /** Flushes, sends TEARDOWN, waits for FIN-ACK (30 s at most). */
  close(options?: { signal?: AbortSignal }): Promise<void>
  readonly closed: Promise<{ reason: string }>
}

export interface SessionManager {
  /**
   * The live session between the two, or a new one by INIT, NEG, ACK.
   * @throws RookeryError `DIAL_FAILED`, `HANDSHAKE_FAILED` (data.reason), `SESSION_REFUSED`, `SESSION_BUSY`; or the signal's reason
   */
  open(from: LocalAgent, to: Eid, address: PeerAddress, options?: { signal?: AbortSignal }): Promise<Session>
  list(): SessionInfo[]
  /** Called for every session that reaches ESTABLISHED, either role, before its first item is handed over: register channels here. */
  onSession(listener: (session: Session) => void): void
  stop(): Promise<void>
}
