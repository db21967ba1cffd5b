import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { RookeryNode } from '../rookery-node.ts'

/** A bound of the whole node that what others do fills, as it stands. */
export interface BoundUse {
  bound: 'sessions' | 'tasks' | 'records'
  used: number
  max: number
  /** what raises it */
  setting: string
  /** what becomes of what comes next, once it is reached */
  beyond: string
}

/** What is asked of a node. */
export interface BoundsSource {
  config: { sessionsMax: RookeryNode['config']['sessionsMax']; registry: Pick<RookeryNode['config']['registry'], 'bytesMax'> }
  sessions: Pick<RookeryNode['sessions'], 'held'>
  registry: Pick<RookeryNode['registry'], 'stats'>
  todos: Pick<RookeryNode['todos'], 'openCount' | 'bounds'>
}

/** Share of a bound from which on it is told of. */
export const BOUND_NEAR = 0.9
/** So often the bounds are looked at. */
export const BOUNDS_WATCH_MS = 5_000

export function boundsOf({ config, sessions, registry, todos }: BoundsSource): BoundUse[] {
  return [
    {
      bound: 'sessions',
      used: sessions.held().sessions,
      max: config.sessionsMax,
      setting: 'sessionsMax',
      beyond: 'callers are asked to wait, then refused with SESSION_BUSY'
    },
    {
      bound: 'tasks',
      used: todos.openCount,
      max: todos.bounds.openMax,
      setting: 'tasks.openMax',
      beyond: 'new tasks are refused with TODO_LIMIT'
    },
    {
      bound: 'records',
      used: registry.stats().bytes,
      max: config.registry.bytesMax,
      setting: 'registry.bytesMax',
      beyond: 'new entries of others are answered "full"'
    }
  ]
}

/** In a sentence for the operator. */
export function boundText({ bound, used, max, setting, beyond }: BoundUse): string {
  const unit = bound === 'records' ? 'bytes of records' : bound
  return `${used.toLocaleString('en')} of ${max.toLocaleString('en')} ${unit} (${setting})${used < max ? '' : `: ${beyond}`}`
}

/** Says in the log when a bound is reached, and when there is room again. Refusals go to callers, so nobody else would tell the operator. */
export class BoundsWatch {
  readonly #node: BoundsSource
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #reached = new Set<BoundUse['bound']>()
  #cancel: () => void = () => {}

  constructor(node: BoundsSource, { clock, logger }: { clock: Clock; logger: Logger }) {
    this.#node = node
    this.#clock = clock
    this.#logger = logger
  }

  start(): void {
    this.#cancel = this.#clock.after(BOUNDS_WATCH_MS, () => {
      this.look()
      this.start()
    })
  }

  look(): void {
    for (const use of boundsOf(this.#node)) {
      const { bound, used, max, setting } = use
      if (used >= max && !this.#reached.has(bound)) {
        this.#reached.add(bound)
        this.#logger.warn(
          { bound, used, max, setting, remedy: `raise ${setting}, or see what fills it` },
          `a bound is reached; ${use.beyond}`
        )
      } else if (used < max * BOUND_NEAR && this.#reached.delete(bound)) {
        this.#logger.info({ bound, used, max, setting }, 'there is room below a bound again')
      }
    }
  }

  stop(): void {
    this.#cancel()
  }
}
