import type { ProtocolError } from '../../protocol/errors.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { ContractMeter } from '../../protocol/session/contract.ts'
import type { SfcBlock } from '../../protocol/session/sfc.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { PeerAddress } from '../net/host.ts'
import type { SessionStates } from '../state/state.ts'
import type { WriteOp } from '../store/store.ts'
import type { ContractDetails, SessionDetails, SessionVectors } from './session-details.ts'
import type { Tombstone } from './session-store.ts'

/** A transaction or live item as the peer sent it. */
export interface Inbound {
  channel: number
  /** protocol/README.md §6, Kinds: below 0x80 durable */
  kind: number
  payload: Uint8Array
  /**
   * Durable items: the writes that record that this transaction is here. A handler that puts them into the batch that stores its effect makes both
   * one; when it resolves without having asked, the session writes them itself. Live items: nothing.
   */
  position(): WriteOp[]
}

/** Facts of an open session, for `rookery session`, `status` and the demo. */
export interface SessionInfo {
  /** session id, 16 bytes in hex */
  id: string
  local: string
  remote: string
  role: 'initiator' | 'responder'
  /** `disconnected`: no connection carries it; it is on disk and goes on by resume */
  state: 'established' | 'disconnected' | 'closing' | 'closed'
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
  /** transactions that the peer has not acknowledged */
  unacked: number
  /** times it was taken up again since this process holds it */
  resumes: number
  activeAtMs: number
  /** the contract in force and what was used of it; absent in a plain session */
  contract?: ContractDetails
  /** its ESE pair is shared with no other session */
  exclusive: boolean
  /** why it ended */
  endReason?: string
  /** why its last connection ended */
  lastLoss?: string
}

/** What happened to a session, beside its items. */
export type SessionEvent = { session: SessionInfo } & (
  | { kind: 'resumed'; resent: number; peerHas: bigint; eseLost: boolean }
  | { kind: 'disconnected'; reason: string }
  /** one of the two lost what it had, or another history than the other holds: the session is over on both sides */
  | { kind: 'diverged'; reason: string; by: 'local' | 'peer'; error?: string }
  /** one of the two has another EID from here on; `remote`: by a certificate that both its keys signed */
  | { kind: 'rotated'; side: 'local' | 'remote'; old: string; new: string }
  | { kind: 'ended'; reason: string; by: 'local' | 'peer'; error?: string }
  /** transactions `from` to `to` are lost to the side that came back without them; `bytes`: the state that takes their place */
  | { kind: 'gap'; direction: 'sent' | 'received'; from: bigint; to: bigint; bytes?: Uint8Array }
  /** never acknowledged, and no session can carry it; `sent`: false where it surely did not leave */
  | { kind: 'outcome-unknown'; reason: string; entry: { seq: bigint; channel: number; kind: number; payload: Uint8Array; sent: boolean } }
)

/** The state that takes the place of what the journal no longer holds, for a peer that lost it. At most 16 MiB. */
export type SnapshotSource = (session: Session) => Promise<Uint8Array>

/** A Persistent State Session (protocol/README.md §6) between one of our agents and a remote one. */
export interface Session {
  readonly local: LocalAgent
  /** changes when the peer rotates */
  readonly remote: Eid
  info(): SessionInfo
  /** Where the two directions stand: ours sent, of these acknowledged, theirs received; each with its rolling hash, which both ends share. */
  vectors(): SessionVectors
  /**
   * Sends one item. A durable one (kinds below 0x80) is journaled and synced first, also while the session is disconnected, and resolves when the
   * peer has acknowledged, that is synced its effect, whatever connections are lost meanwhile; a live one when the transport took it. Waits for the
   * channel's window. The payload is not copied: it must not change until then. A signal ends the waiting; what is journaled goes on.
   * @throws RookeryError `SESSION_CLOSED`, `SESSION_LOST` (data.outcome: `unknown`, or `not-sent` where it surely did not leave),
   *   `SESSION_QUEUE_FULL`, `CHANNELS_MAX`, `MESSAGE_TOO_LARGE`, `CONTRACT_LIMIT` (field: that of the block); or the signal's reason
   */
  send(channel: number, kind: number, payload: Uint8Array, options?: { signal?: AbortSignal }): Promise<void>
  /**
   * Serves a channel. The handler is called in the channel's order, without waiting for the call before: what it syncs can share one commit. What
   * comes before a channel is served waits for its handler (1 MiB a session, then the session is closed). Payloads are views of a record: copy
   * what you keep. A transaction is acknowledged when the handler's promise resolves; so a handler resolves once the effect is synced, and
   * goes on with longer work by itself. A handler that throws closes the session (VIOLATION is ours to avoid: handlers answer errors in band).
   */
  onChannel(channel: number, handler: (item: Inbound) => Promise<void>): void
  /**
   * Serves one kind of item, on whatever channel it comes, in place of the channels' handlers; the same rules as for those. Register when
   * the session is told ({@link SessionManager.onSession}): what came before goes by its channel.
   */
  onKind(kind: number, handler: (item: Inbound) => Promise<void>): void
  /**
   * Called whenever the session goes on over a new connection. What the peer's process held in memory may be gone with the old one: who waits for
   * an answer asks again. Returns the unsubscriber.
   */
  onResumed?(listener: () => void): () => void
  /** Flushes, sends TEARDOWN, waits for FIN-ACK (30 s at most). */
  close(options?: { signal?: AbortSignal }): Promise<void>
  readonly closed: Promise<{ reason: string }>
  /** Everything about it; where a connection carries it, a ping is answered first (2 s at most). */
  details(): Promise<SessionDetails>
  /** What the session is held to; what lasts beyond an item (tasks, stored objects, ESE values) is reported here. Undefined in a plain session. */
  readonly contract: ContractMeter | undefined
  /** The pair of Ephemeral State Endpoints: ours, and the mirror of the peer's. */
  readonly states: SessionStates
  /** The peer went over the contract in what lasts beyond an item: the session is closed with CONTRACT, here and there. */
  breach(error: ProtocolError): void
  /**
   * A channel's inbound items, one at a time, in place of a handler: an item counts as handled, and a durable one is acknowledged, when the next is
   * asked for or the loop is left. Ends with the session.
   */
  items(channel: number): AsyncIterableIterator<Inbound>
  /** What happens to this session, beside its items. @returns the unsubscriber */
  onEvent(listener: (event: SessionEvent) => void): () => void
  /** As {@link close}. */
  [Symbol.asyncDispose](): Promise<void>
}

/** How {@link SessionManager.open} opens. */
export interface SessionOpenOptions {
  signal?: AbortSignal
  /** asks for a contract that grants at least this; `{}`: any */
  contract?: Partial<SfcBlock>
  /** asks for an ESE pair that is shared with no other session (flag EXCLUSIVE) */
  exclusive?: boolean
}

export interface SessionManager {
  /**
   * The live session between the two, or a new one by INIT, NEG, ACK.
   * @throws RookeryError `DIAL_FAILED`, `HANDSHAKE_FAILED` (data.reason), `SESSION_REFUSED`, `SESSION_BUSY`, `CONTRACT_REFUSED` (what is offered falls
   *   short; names the field), `CONTRACT_UNMET` (the session that is there does), `EXCLUSIVE_UNMET`; or the signal's reason
   */
  open(from: LocalAgent, to: Eid, address: PeerAddress, options?: SessionOpenOptions): Promise<Session>
  /** Sessions in memory, also disconnected ones. */
  list(): SessionInfo[]
  /** The session of that id, read back from disk where it is parked. @param id - hex, as in {@link SessionInfo} */
  get(id: string): Promise<Session | undefined>
  /** All sessions, those that only the disk holds included. */
  listAll(): Promise<SessionInfo[]>
  /** How sessions ended, oldest first; the newest 1,000. */
  ended(): Promise<Tombstone[]>
  /** The newest events, oldest first; at most 256. */
  recent(): readonly SessionEvent[]
  onEvent(listener: (event: SessionEvent) => void): () => void
  /** A newer locator of the agent was seen: a session that is disconnected, or held over another address, tries there at once. */
  locatorSeen(remote: Eid, address: PeerAddress): void
  /** Called for every session that reaches ESTABLISHED, either role, before its first item is handed over: register channels here. */
  onSession(listener: (session: Session) => void): void
  /**
   * The agent has another EID: every session that knows it by an older one, parked ones included, is sent the certificates, once. Resolves when they
   * are journaled; call it again after a restart.
   */
  rotated(agent: LocalAgent): Promise<void>
  /** EIDs that the agent had and that some session still goes by */
  unsettled(agent: LocalAgent): Eid[]
  /** A session has acknowledged a rotation of the agent, on disk too, or has ended. */
  onSettled(listener: (agent: LocalAgent) => void): void
  stop(): Promise<void>
}
