export const INITS_PER_CONNECTION_MAX = 8
export const INIT_WINDOW_MS = 60_000
export const FAILED_ACKS_MAX = 4

/** What a connection's source (its PeerId, its network) may still ask for over all of its connections; the node keeps it, bounded. */
export interface SourceLimit {
  /** Seconds until a handshake may be computed for it again; 0: now. */
  waitSeconds(nowMs: number): number
  /** One is being computed. */
  spend(nowMs: number): void
}

const UNLIMITED: SourceLimit = { waitSeconds: () => 0, spend: () => {} }

/** What one connection may still ask of the responder: 8 INITs in any minute, three ACKs that fail. Lives and dies with the connection. */
export class ConnectionGuard {
  /** what outlives the connection */
  readonly source: SourceLimit
  /** at most {@link INITS_PER_CONNECTION_MAX} */
  #initsMs: number[] = []
  #failedAcks = 0

  constructor({ source = UNLIMITED }: { source?: SourceLimit } = {}) {
    this.source = source
  }

  /** Counts an INIT unless there were 8 in the minute before. */
  admitInit(nowMs: number): 'admitted' | 'too-many' {
    this.#initsMs = this.#initsMs.filter((atMs) => atMs > nowMs - INIT_WINDOW_MS)
    if (this.#initsMs.length >= INITS_PER_CONNECTION_MAX) return 'too-many'
    this.#initsMs.push(nowMs)
    return 'admitted'
  }

  /** Counts an ACK that failed, and says what it closes: its stream, or from the fourth on the connection. */
  ackFailed(): 'stream' | 'connection' {
    this.#failedAcks += 1
    return this.#failedAcks >= FAILED_ACKS_MAX ? 'connection' : 'stream'
  }
}
