import type { Clock } from '../platform/clock.ts'

/** The system tells a program nothing of its interfaces: it is asked so often. */
export const WATCH_MS = 3_000

export interface NetworkChange {
  readonly gone: readonly string[]
  readonly came: readonly string[]
}

/** Tells when this machine's addresses change: another network, a cable, a VPN, a new prefix. */
export class NetworkWatch {
  readonly #clock: Clock
  readonly #read: () => string[]
  readonly #changed: (change: NetworkChange) => void
  #known: string[]
  #cancel: () => void = () => {}

  constructor(clock: Clock, changed: (change: NetworkChange) => void, read: () => string[]) {
    this.#clock = clock
    this.#read = read
    this.#changed = changed
    this.#known = read()
  }

  start(): void {
    this.#cancel = this.#clock.after(WATCH_MS, () => {
      this.#look()
      this.start()
    })
  }

  #look(): void {
    const now = this.#read()
    const gone = this.#known.filter((address) => !now.includes(address))
    const came = now.filter((address) => !this.#known.includes(address))
    this.#known = now
    if (gone.length > 0 || came.length > 0) this.#changed({ gone, came })
  }

  stop(): void {
    this.#cancel()
  }
}
