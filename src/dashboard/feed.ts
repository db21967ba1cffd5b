import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { RookeryError } from '../errors.ts'
import type { Vitals } from '../ops/vitals.ts'
import type { LogRing } from '../platform/log-ring.ts'
import type { RookeryNode } from '../rookery-node.ts'
import { Board } from './board.ts'
import { SECTIONS, type SectionName, type Sections } from './sections.ts'

/** Pages that watch at a time. */
export const WATCHERS_MAX = 16
/** How often the node is looked at while somebody watches; nothing is sent but what changed. */
const LOOK_MS = 1_000
/** What comes within this goes out together. */
const GATHER_MS = 50
const LOG_LINES_AT_ONCE_MAX = 500

/** What a page knows already, from an earlier stream of the same process. */
export interface Known {
  /** names the process; of another one nothing is known */
  epoch?: string
  sections?: Record<string, string>
  tasksRev?: number
  logSeq?: number
}

interface Watcher {
  res: ServerResponse
  /** version of each section that it was sent */
  sections: Map<string, string>
  /** -1: no board yet */
  tasksRev: number
  logSeq: number
  /** a look at what is new is under way; `again`: something came meanwhile */
  pumping: 'no' | 'yes' | 'again'
  ended: boolean
}

/**
 * What pages are told as it happens: one line of JSON each, `{"hello"}` first, then `{"section", "version", "data"}`, `{"vitals"}`, `{"tasks"}`,
 * `{"logs"}`. A watcher holds no queue, only how far it was told: one that reads slowly gets the newest state of a section and skips what was between;
 * one that comes again names what it knows and is told the rest.
 */
export class Feed {
  readonly #node: RookeryNode
  readonly #sections: Sections
  readonly #vitals: Vitals
  readonly #logs: LogRing | undefined
  readonly #board: Board
  readonly #epoch: string
  readonly #watchers = new Set<Watcher>()
  readonly #held = new Map<SectionName, { version: string; line: string }>()
  #vitalsLine = ''
  #cancelLook: () => void = () => {}
  #cancelGather: (() => void) | undefined
  #offLogs: () => void = () => {}

  constructor(node: RookeryNode, parts: { sections: Sections; vitals: Vitals; logs: LogRing | undefined }) {
    this.#node = node
    this.#sections = parts.sections
    this.#vitals = parts.vitals
    this.#logs = parts.logs
    this.#board = new Board(node)
    this.#epoch = `${process.pid}-${node.startedAtMs}`
    node.closeFirst('dashboard', 100, () => {
      for (const { res } of this.#watchers) res.end()
    })
  }

  /** Tells `res` from now until it is closed. @throws RookeryError `WATCHERS_MAX` */
  watch(res: ServerResponse, known: Known): void {
    if (this.#watchers.size >= WATCHERS_MAX) {
      throw new RookeryError('WATCHERS_MAX', `${WATCHERS_MAX} pages watch already`, {
        kind: 'unavailable',
        field: 'watchers',
        value: WATCHERS_MAX,
        remedy: 'close a page'
      })
    }
    const goesOn = known.epoch === this.#epoch
    const watcher: Watcher = {
      res,
      sections: new Map(goesOn ? Object.entries(known.sections ?? {}) : []),
      tasksRev: goesOn ? (known.tasksRev ?? -1) : -1,
      logSeq: goesOn ? (known.logSeq ?? 0) : 0,
      pumping: 'no',
      ended: false
    }
    this.#watchers.add(watcher)
    res.on('close', () => this.#leave(watcher))
    res.on('error', () => this.#leave(watcher))
    res.on('drain', () => this.#pump(watcher))
    res.writeHead(200, { 'Content-Type': 'application/x-ndjson; charset=utf-8' })
    const { level, levels } = this.#node.config.logs
    res.write(
      line({ hello: { epoch: this.#epoch, nowMs: this.#node.clock.nowMs(), logs: this.#logs === undefined ? 'off' : { level, levels } } })
    )
    if (this.#watchers.size === 1) this.#begin()
    else this.#pump(watcher)
  }

  #begin(): void {
    this.#board.follow(() => this.#gather())
    this.#offLogs = this.#logs?.onLine(() => this.#gather()) ?? (() => {})
    void this.#look()
  }

  #leave(watcher: Watcher): void {
    if (watcher.ended) return
    watcher.ended = true
    this.#watchers.delete(watcher)
    if (this.#watchers.size > 0) return
    this.#board.unfollow()
    this.#offLogs()
    this.#cancelLook()
    this.#cancelGather?.()
    this.#cancelGather = undefined
  }

  /** Reads everything anew, once for all watchers. */
  async #look(): Promise<void> {
    try {
      for (const name of SECTIONS) await this.#readSection(name)
      this.#vitalsLine = line({ vitals: await this.#vitals.read() })
    } catch (error) {
      if (!this.#node.signal.aborted) this.#node.logger.warn({ err: error }, 'the dashboard could not read the node; tried again')
    }
    for (const watcher of this.#watchers) {
      if (this.#vitalsLine !== '' && !watcher.res.writableNeedDrain) watcher.res.write(this.#vitalsLine)
      this.#pump(watcher)
    }
    this.#cancelLook()
    if (this.#watchers.size > 0 && !this.#node.signal.aborted) this.#cancelLook = this.#node.clock.after(LOOK_MS, () => void this.#look())
  }

  async #readSection(name: SectionName): Promise<void> {
    const text = JSON.stringify(await this.#sections.read(name))
    const version = createHash('sha256').update(text).digest('base64url').slice(0, 16)
    if (this.#held.get(name)?.version === version) return
    this.#held.set(name, { version, line: `{"section":"${name}","version":"${version}","data":${text}}\n` })
  }

  /** Something was done by a page: what it changed is told at once. */
  changed(): void {
    this.#cancelLook()
    if (this.#watchers.size > 0) void this.#look()
  }

  #gather(): void {
    this.#cancelGather ??= this.#node.clock.after(GATHER_MS, () => {
      this.#cancelGather = undefined
      for (const watcher of this.#watchers) this.#pump(watcher)
    })
  }

  #pump(watcher: Watcher): void {
    if (watcher.pumping !== 'no') {
      watcher.pumping = 'again'
      return
    }
    watcher.pumping = 'yes'
    this.#tell(watcher)
      .catch((error: unknown) => {
        if (!this.#node.signal.aborted) this.#node.logger.warn({ err: error }, 'a dashboard page could not be told')
        watcher.res.destroy()
      })
      .finally(() => {
        const again = watcher.pumping === 'again'
        watcher.pumping = 'no'
        if (again && !watcher.ended) this.#pump(watcher)
      })
  }

  async #tell(watcher: Watcher): Promise<void> {
    const { res } = watcher
    for (const [name, { version, line }] of this.#held) {
      if (watcher.ended || res.writableNeedDrain) return
      if (watcher.sections.get(name) === version) continue
      watcher.sections.set(name, version)
      res.write(line)
    }
    if (watcher.tasksRev !== this.#board.rev) {
      const since = watcher.tasksRev < 0 ? undefined : await this.#board.since(watcher.tasksRev)
      const tasks = since ?? (await this.#board.whole())
      if (watcher.ended || res.writableNeedDrain) return
      watcher.tasksRev = tasks.rev
      res.write(line({ tasks: { ...tasks, isWhole: since === undefined } }))
    }
    if (this.#logs !== undefined && watcher.logSeq < this.#logs.newest && !watcher.ended && !res.writableNeedDrain) {
      const { records, missed } = this.#logs.after(watcher.logSeq, LOG_LINES_AT_ONCE_MAX)
      watcher.logSeq = this.#logs.newest
      res.write(line({ logs: records, missed }))
    }
  }
}

function line(value: object): string {
  return `${JSON.stringify(value)}\n`
}
