import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { HostFault } from './host.ts'

/** A listener is asked at once and then this often whether it answers; after a time without an answer sooner. */
export const ASK_MS = 30_000
export const ASK_AGAIN_MS = 5_000
/** So long it may take to answer, */
export const ANSWER_MS = 5_000
/** and so often in a row it may not, before its socket counts as dead: by then QUIC has given up every connection itself, so that no live one is cut. */
export const SILENT_MAX = 6
/** A new socket that answers no better is not the remedy: the next one is taken after twice as long. */
export const PAUSE_MIN_MS = 30_000
export const PAUSE_MAX_MS = 600_000

/** A socket that QUIC listens on. */
export interface Listening {
  /** as a multiaddr, for people */
  address: string
  answers(patienceMs: number): Promise<boolean>
  /** Gives up its socket and takes another one on the same address. `stuck`: it cannot be given up, so its port stays taken. */
  bindAnew(): Promise<'bound' | 'stuck'>
}

/**
 * A QUIC socket that fails for good is told by nobody: the native endpoint asks it again and again, connections run out, dials find no way, and the
 * node still names its addresses. So each listener is asked in the way of a stranger whether it answers; one that does not any more is bound anew until it
 * does, less and less often: a flood or a firewall makes it as silent, and no new socket helps against those. One that never answered is not judged at all.
 * Where the native endpoint does not even let go of the socket, only a restart of the process helps.
 */
export class QuicWatch {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #silent = new Map<Listening, HostFault>()
  readonly #bound: () => Promise<void>

  /** @param bound - called before a listener is bound anew: sockets that dial are of no use either */
  constructor({ clock, logger }: { clock: Clock; logger: Logger }, bound: () => Promise<void> = async () => {}) {
    this.#clock = clock
    this.#logger = logger
    this.#bound = bound
  }

  /** What is wrong now; undefined: all answer. */
  fault(): HostFault | undefined {
    const faults = [...this.#silent.values()]
    return faults.find(({ needs }) => needs === 'restart') ?? faults[0]
  }

  /** Returns what ends it. */
  watch(listening: Listening): () => void {
    let isOver = false
    let hasAnswered = false
    let failures = 0
    let pauseMs = PAUSE_MIN_MS
    let notBeforeMs = 0
    let cancel: () => void = () => {}
    const later = (ms: number) => {
      if (!isOver) cancel = this.#clock.after(ms, () => void look())
    }
    const look = async () => {
      const answers = await listening.answers(ANSWER_MS).catch(() => false)
      if (isOver) return
      if (answers) {
        hasAnswered = true
        failures = 0
        pauseMs = PAUSE_MIN_MS
        notBeforeMs = 0
        if (this.#silent.delete(listening)) this.#logger.info({ address: listening.address }, 'QUIC answers again')
        return later(ASK_MS)
      }
      failures++
      if (!hasAnswered || failures < SILENT_MAX || this.#clock.monotonicMs() < notBeforeMs) return later(ASK_AGAIN_MS)
      const outcome = await this.#mend(listening)
      if (outcome === 'lost') return
      if (outcome === 'bound') {
        notBeforeMs = this.#clock.monotonicMs() + pauseMs
        pauseMs = Math.min(PAUSE_MAX_MS, 2 * pauseMs)
      }
      later(ASK_AGAIN_MS)
    }
    later(0)
    return () => {
      isOver = true
      cancel()
      this.#silent.delete(listening)
    }
  }

  async #mend(listening: Listening): Promise<'bound' | 'not bound' | 'lost'> {
    const { address } = listening
    const isNew = !this.#silent.has(listening)
    this.#silent.set(listening, {
      needs: 'time',
      detail: `QUIC at ${address} does not answer: its socket is bound anew, less and less often until it answers; where that does not help, see whether a firewall drops UDP to the node itself, or a flood fills it`
    })
    if (isNew) this.#logger.error({ address }, 'the socket of QUIC does not answer any more; it is bound anew, and connections begin again')
    try {
      await this.#bound()
      if ((await listening.bindAnew()) === 'stuck') {
        this.#silent.set(listening, {
          needs: 'restart',
          detail: `the socket of QUIC at ${address} is dead and cannot be given up: restart the node`
        })
        this.#logger.error({ address, remedy: 'restart the node' }, 'the dead socket of QUIC cannot be given up')
        return 'lost'
      }
      this.#logger.warn({ address }, 'QUIC has a new socket')
      return 'bound'
    } catch (err) {
      const why = err instanceof Error ? err.message : String(err)
      const remedy = 'see whether the address is still one of this machine (`ip address`) and who holds the port'
      this.#silent.set(listening, { needs: 'time', detail: `QUIC at ${address} cannot be bound anew: ${why}; ${remedy}` })
      this.#logger.error({ address, err, remedy }, 'QUIC cannot be bound anew; it is tried again')
    }
    return 'not bound'
  }
}
