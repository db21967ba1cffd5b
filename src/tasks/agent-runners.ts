import type { EidHex } from '../../protocol/identity/eid.ts'
import type { HandlerName } from '../api/methods.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { Tracer } from '../platform/tracer.ts'
import { type AgentHandler, type HandlerModule, type HandlerSkill, loadHandler, type SideEffects } from './handler.ts'
import type { Todo, Todos } from './todo.ts'
import { CONCURRENCY_WITHOUT_EFFECTS, createWorker, type Worker } from './worker.ts'

interface Runner {
  module: HandlerModule
  worker: Worker
}

interface AgentRunnersComponents {
  todos: Todos
  clock: Clock
  random: Random
  logger: Logger
  tracer?: Tracer
  traceOf?: (todo: Todo) => string | undefined
}

/** Handlers at work in this process, one an agent at most. An agent without one is served by hand, from the inbox. */
export class AgentRunners {
  readonly #components: AgentRunnersComponents
  readonly #mayRun: (agent: LocalAgent) => boolean
  readonly #settings: { leaseMs: number; graceMs: number }
  readonly #runners = new Map<EidHex, Runner>()

  constructor(components: AgentRunnersComponents, init: { mayRun: (agent: LocalAgent) => boolean; leaseMs: number; graceMs: number }) {
    this.#components = components
    this.#mayRun = init.mayRun
    this.#settings = { leaseMs: init.leaseMs, graceMs: init.graceMs }
  }

  /** Whether a handler takes this agent's work: what G-16 calls attached. */
  has(agent: LocalAgent): boolean {
    return this.#runners.has(homeOf(agent))
  }

  skills(agent: LocalAgent): readonly HandlerSkill[] {
    return this.#runners.get(homeOf(agent))?.module.skills ?? []
  }

  /**
   * What work of this agent may do (OD-40): as its handler declares; undeclared counts as consequential. By hand, the owner's own act is the consent, and whoever claims
   * it declares anew.
   */
  sideEffects(agent: LocalAgent): SideEffects {
    return this.#runners.get(homeOf(agent))?.module.sideEffects ?? 'none'
  }

  /** Puts a handler to work in place of the one before. */
  async run(agent: LocalAgent, module: HandlerModule): Promise<void> {
    await this.#runners.get(homeOf(agent))?.worker.stop()
    const worker = createWorker(this.#components, {
      agent: homeOf(agent),
      handler: module.handler,
      sideEffects: module.sideEffects,
      mayRun: () => this.#mayRun(agent),
      settings: { ...this.#settings, concurrency: module.sideEffects === 'none' ? CONCURRENCY_WITHOUT_EFFECTS : 1 }
    })
    this.#runners.set(homeOf(agent), { module, worker })
    worker.start()
  }

  /** Looks for work, after a wake for instance. */
  poke(agent: LocalAgent): void {
    this.#components.todos.reconsider(homeOf(agent))
  }

  async stop(): Promise<void> {
    const workers = [...this.#runners.values()].map(({ worker }) => worker.stop())
    this.#runners.clear()
    await Promise.all(workers)
  }
}

/**
 * The module that a handler's name stands for; undefined for `manual`.
 * @throws RookeryError `HANDLER_UNKNOWN`, `HANDLER_LOAD_FAILED`, `HANDLER_INVALID`
 */
export async function handlerModule(name: HandlerName): Promise<HandlerModule | undefined> {
  if (name === 'manual') return undefined
  return await loadHandler(name.startsWith('/') || /^[A-Za-z]:[\\/]/.test(name) ? name : `builtin:${name}`)
}

/** A handler given in process. */
export function moduleOf(handler: AgentHandler, options: { sideEffects?: SideEffects; skills?: HandlerSkill[] } = {}): HandlerModule {
  return { handler, sideEffects: options.sideEffects ?? 'consequential', skills: options.skills ?? [] }
}
