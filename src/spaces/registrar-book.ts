import { toHex } from '../../protocol/bytes.ts'
import type { RegistryEntry } from '../../protocol/discovery/registry-entry.ts'
import { matchesQuery } from '../../protocol/discovery/registry-entry.ts'
import { type RegistrySet, registryKeyName } from '../../protocol/discovery/registry-messages.ts'
import { CLOCK_SKEW_SEC } from '../../protocol/records/envelope.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { jsonCodec, type Store, type Table } from '../store/store.ts'

/** A registrar has so long to show what it took (protocol/README.md §4). */
export const SHOW_WITHIN_MS = 60_000
/** Entries that registrars took and that are still waited for; the oldest goes first. */
const PROMISES_MAX = 4_096
/** Registrars with faults that are remembered; the one whose last fault is longest ago goes first. */
const FAULTY_MAX = 256
/** A fault older than this is forgiven. */
const FORGIVEN_MS = 24 * 3_600_000
/** Faults are written down so long after the first of them: a liar costs one write a second, whatever it serves. */
const WRITE_AFTER_MS = 1_000

/** What a registrar did wrong, as far as this node saw it. */
export interface RegistrarReport {
  /** PeerId, text form */
  peer: string
  /** entries that it took with `ok` and left out of a listing later than a minute after, within their life */
  hidden: number
  /** records that it served and that do not verify, do not belong there or were not asked for */
  invented: number
  lastAtMs: number
}

export interface RegistrarBookComponents {
  clock: Clock
  store: Store
  logger: Logger
}

interface Promised {
  id: string
  number: number
  expSec: number
  tookAtMs: number
  gone: boolean
  curator: Uint8Array
  tags: readonly string[]
  unlisted: false
}

/** What one registrar served of a set, read to its end. */
export interface Served {
  set: RegistrySet
  key: Uint8Array
  curator?: Uint8Array
  tags?: readonly string[]
  /** only this one was asked for */
  id?: Uint8Array
  /** highest number served, by name in hex */
  numbers: ReadonlyMap<string, number>
}

/** Which registrars took what, in memory, and which hid or invented entries, on disk too (protocol/README.md §4). */
export class RegistrarBook {
  readonly #clock: Clock
  readonly #store: Store
  readonly #logger: Logger
  readonly #table: Table<RegistrarReport>
  /** by registrar, set, key and name, oldest first */
  readonly #promises = new Map<string, Promised>()
  /** the one whose last fault is longest ago first */
  readonly #faulty = new Map<string, RegistrarReport>()
  /** whose row is not as it is here; at most those that were held since the last write */
  readonly #unwritten = new Set<string>()
  #cancelWrite: (() => void) | undefined
  #writing: Promise<void> = Promise.resolve()

  private constructor({ clock, store, logger }: RegistrarBookComponents) {
    this.#clock = clock
    this.#store = store
    this.#logger = logger
    this.#table = store.table('faulty-registrars', jsonCodec<RegistrarReport>())
  }

  /** With the faults of before, as far as they are not forgiven. */
  static async open(components: RegistrarBookComponents): Promise<RegistrarBook> {
    const book = new RegistrarBook(components)
    const reports: RegistrarReport[] = []
    for await (const [, report] of book.#table.entries()) reports.push(report)
    for (const report of reports.sort((a, b) => a.lastAtMs - b.lastAtMs)) {
      if (components.clock.nowMs() - report.lastAtMs > FORGIVEN_MS) book.#changed(report.peer)
      else book.#faulty.set(report.peer, report)
    }
    return book
  }

  /** The registrar answered `ok` to a PUT of this entry. */
  took(peer: string, key: Uint8Array, entry: RegistryEntry): void {
    const id = toHex(entry.id)
    const name = `${placeName(peer, entry.set, key)}:${id}`
    const before = this.#promises.get(name)
    this.#promises.delete(name)
    if (entry.unlisted) return // no registrar shows it
    if (this.#promises.size >= PROMISES_MAX) this.#promises.delete(this.#promises.keys().next().value as string)
    this.#promises.set(name, {
      id,
      number: entry.number,
      expSec: entry.exp,
      tookAtMs: before?.number === entry.number ? before.tookAtMs : this.#clock.monotonicMs(),
      gone: entry.gone,
      curator: entry.curator,
      tags: entry.tags,
      unlisted: false
    })
  }

  /**
   * A whole answer of a registrar came in.
   * @returns the names that it should have served, in hex; each counts once
   */
  served(peer: string, served: Served): string[] {
    const prefix = `${placeName(peer, served.set, served.key)}:`
    const hidden: string[] = []
    for (const [name, promised] of this.#promises) {
      if (!name.startsWith(prefix)) continue
      if (promised.expSec * 1_000 <= this.#clock.nowMs() + CLOCK_SKEW_SEC * 1_000) this.#promises.delete(name)
      else if (this.#isDue(promised, served)) {
        if ((served.numbers.get(promised.id) ?? -1) >= promised.number) continue
        this.#promises.delete(name)
        hidden.push(promised.id)
      }
    }
    if (hidden.length > 0) this.#count(peer, { hidden: hidden.length })
    return hidden
  }

  #isDue(promised: Promised, { id, curator, tags }: Served): boolean {
    if (this.#clock.monotonicMs() - promised.tookAtMs <= SHOW_WITHIN_MS) return false
    if (id !== undefined && toHex(id) !== promised.id) return false
    return matchesQuery(promised, { ...(curator === undefined ? {} : { curator }), ...(tags === undefined ? {} : { tags }) })
  }

  /** What it seemed to hide it does not take again: its set is full of better ones, or it refuses the signer. */
  excused(peer: string): void {
    const report = this.#faulty.get(peer)
    if (report === undefined) return
    report.hidden--
    if (report.hidden + report.invented <= 0) this.#faulty.delete(peer)
    this.#changed(peer)
  }

  /** It served records that no honest registrar keeps. */
  invented(peer: string, records: number): void {
    this.#count(peer, { invented: records })
  }

  #count(peer: string, { hidden = 0, invented = 0 }: { hidden?: number; invented?: number }): void {
    const before = this.#faulty.get(peer)
    this.#faulty.delete(peer)
    if (this.#faulty.size >= FAULTY_MAX) this.#forget(this.#faulty.keys().next().value as string)
    this.#faulty.set(peer, {
      peer,
      hidden: (before?.hidden ?? 0) + hidden,
      invented: (before?.invented ?? 0) + invented,
      lastAtMs: this.#clock.nowMs()
    })
    this.#changed(peer)
  }

  #forget(peer: string): void {
    if (this.#faulty.delete(peer)) this.#changed(peer)
  }

  #changed(peer: string): void {
    this.#unwritten.add(peer)
    this.#cancelWrite ??= this.#clock.after(WRITE_AFTER_MS, () => this.#write())
  }

  #write(): void {
    this.#cancelWrite?.()
    this.#cancelWrite = undefined
    const ops = [...this.#unwritten].map((peer) => {
      const report = this.#faulty.get(peer)
      return report === undefined ? this.#table.del(peer) : this.#table.put(peer, { ...report })
    })
    this.#unwritten.clear()
    if (ops.length === 0) return
    this.#writing = this.#writing
      .then(() => this.#store.commit(ops))
      .catch((error: unknown) =>
        this.#logger.warn({ error }, 'which registrars lie could not be written down; it is known until this node stops')
      )
  }

  /** Resolves once all that is known is written, or cannot be. */
  async close(): Promise<void> {
    this.#write()
    await this.#writing
  }

  isFaulty(peer: string): boolean {
    const report = this.#faulty.get(peer)
    if (report !== undefined && this.#clock.nowMs() - report.lastAtMs <= FORGIVEN_MS) return true
    this.#forget(peer)
    return false
  }

  /** The latest fault first. */
  report(): RegistrarReport[] {
    return [...this.#faulty.values()]
      .filter(({ peer }) => this.isFaulty(peer))
      .map((one) => ({ ...one }))
      .reverse()
  }
}

const placeName = (peer: string, set: RegistrySet, key: Uint8Array) => `${peer}:${toHex(registryKeyName(set, key))}`
