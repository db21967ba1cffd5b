import { RookeryError } from './errors.ts'
import type { Clock } from './platform/clock.ts'
import { jsonCodec, type Store } from './store/store.ts'

const BY_HAND_TRIES_MS = 3_000
const RETRY_MS = 500

/** Ports that were taken automatically before, tried first at the next start. */
export class PortMemory {
  readonly #store: Store
  readonly #table

  constructor(store: Store) {
    this.#store = store
    this.#table = store.table('ports', jsonCodec<number>())
  }

  get(kind: 'p2p' | 'http'): Promise<number | undefined> {
    return this.#table.get(kind)
  }

  async remember(kind: 'p2p' | 'http', port: number): Promise<void> {
    if ((await this.#table.get(kind)) !== port) await this.#store.commit([this.#table.put(kind, port)])
  }
}

/**
 * Opens with the first candidate that is free; the last is always 0, which the system fills in (F094).
 * @throws what `open` throws, but for `PORT_IN_USE` before the last candidate
 */
export async function openOnAnyPort<T>(candidates: readonly number[], open: (port: number) => Promise<T>): Promise<T> {
  for (const port of candidates.filter((port) => port !== 0)) {
    try {
      return await open(port)
    } catch (error) {
      if (!isPortInUse(error)) throw error
    }
  }
  return await open(0)
}

/**
 * Opens on the ports that were set by hand: the process before may still be letting go of them, so it tries for 3 s, then fails clearly (F094).
 * @throws RookeryError `PORT_IN_USE` naming `field`
 */
export async function openOnGivenPort<T>(
  clock: Clock,
  open: () => Promise<T>,
  options: { signal?: AbortSignal | undefined } = {}
): Promise<T> {
  const untilMs = clock.monotonicMs() + BY_HAND_TRIES_MS
  for (;;) {
    try {
      return await open()
    } catch (error) {
      if (!isPortInUse(error) || clock.monotonicMs() + RETRY_MS > untilMs) throw error
    }
    await clock.sleep(RETRY_MS, options.signal === undefined ? {} : { signal: options.signal })
  }
}

function isPortInUse(error: unknown): error is RookeryError {
  return error instanceof RookeryError && error.code === 'PORT_IN_USE'
}
