import { RookeryError } from '../../src/errors.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { channelItems } from '../../src/sessions/channel-items.ts'
import type { Inbound, Session, SessionInfo } from '../../src/sessions/session.ts'
import type { SessionDetails, SessionVectors } from '../../src/sessions/session-details.ts'

/** One end of two sessions that hand items straight to each other: durable sends resolve when the peer's handler has. */
export class PairedSession implements Session {
  readonly local: LocalAgent
  readonly remote: LocalAgent['eid']
  readonly closed: Promise<{ reason: string }>
  /** payloads that the peer sent on any channel, as they came */
  readonly received: Inbound[] = []
  /** sends whose transaction the peer has acknowledged */
  acknowledged = 0
  peer!: PairedSession
  readonly #handlers = new Map<number, (item: Inbound) => Promise<void>>()
  readonly #ofKind = new Map<number, (item: Inbound) => Promise<void>>()
  readonly #end: (ended: { reason: string }) => void
  #ended: string | undefined

  constructor(local: LocalAgent, remote: LocalAgent) {
    this.local = local
    this.remote = remote.eid
    const { promise, resolve } = Promise.withResolvers<{ reason: string }>()
    this.closed = promise
    this.#end = resolve
  }

  info(): SessionInfo {
    return { id: '00', txSeq: '0' } as SessionInfo
  }

  async send(channel: number, kind: number, payload: Uint8Array): Promise<void> {
    if (this.#ended !== undefined) throw new RookeryError('SESSION_CLOSED', 'the session is closed', { kind: 'unavailable' })
    const item: Inbound = { channel, kind, payload: payload.slice(), position: () => [] }
    this.peer.received.push(item)
    await Promise.resolve()
    const handler = this.peer.#ofKind.get(kind) ?? this.peer.#handlers.get(channel)
    const handled = handler?.(item) ?? Promise.resolve()
    const outcome = await Promise.race([handled.then(() => 'acked'), this.closed])
    if (outcome !== 'acked') throw new RookeryError('SESSION_LOST', 'the session was lost', { kind: 'unavailable' })
    this.acknowledged++
  }

  onChannel(channel: number, handler: (item: Inbound) => Promise<void>): void {
    this.#handlers.set(channel, handler)
  }

  onKind(kind: number, handler: (item: Inbound) => Promise<void>): void {
    this.#ofKind.set(kind, handler)
  }

  readonly contract = undefined

  get states(): never {
    throw new Error('a paired session has no state')
  }

  breach(): void {}

  vectors(): SessionVectors {
    throw new Error('a paired session has no facts')
  }

  details(): Promise<SessionDetails> {
    throw new Error('a paired session has no facts')
  }

  items(channel: number): AsyncGenerator<Inbound, void, undefined> {
    return channelItems(this, channel)
  }

  onEvent(): () => void {
    return () => {}
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async close(): Promise<void> {
    this.lose('closed')
  }

  lose(reason: string): void {
    for (const side of [this, this.peer] as PairedSession[]) {
      side.#ended ??= reason
      side.#end({ reason })
    }
  }
}

export function sessionPair(a: LocalAgent, b: LocalAgent): [PairedSession, PairedSession] {
  const left = new PairedSession(a, b)
  const right = new PairedSession(b, a)
  left.peer = right
  right.peer = left
  return [left, right]
}
