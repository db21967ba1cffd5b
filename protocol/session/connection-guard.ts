export const INITS_PER_CONNECTION_MAX = 8
export const INIT_WINDOW_MS = 60_000
export const FAILED_ACKS_MAX = 4

/** What one connection may still ask of the responder: 8 INITs in any minute, three ACKs that fail. Lives and dies with the connection. */
export class ConnectionGuard {
  /** at most {@link INITS_PER_CONNECTION_MAX} */
  #initsMs: number[] = []
  #failedAcks = 0

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
