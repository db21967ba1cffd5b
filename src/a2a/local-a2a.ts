import type { A2ARequestHandler } from '@a2a-js/sdk/server'
import type { Reachability } from '../../protocol/delivery/reachability.ts'
import type { Refusal } from '../../protocol/delivery/refusals.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import { stateClass } from '../tasks/states.ts'
import type { JsonObject, Principal, Todo, Todos } from '../tasks/todo.ts'
import { noStreams } from './a2a-error.ts'
import { cardFromJson } from './agent-card.ts'
import type { A2aMethod } from './params.ts'
import { BLOCKING_WAIT_DEFAULT_MS, createRequestHandler } from './request-handler.ts'

/** A reachability refusal on its way to a binding, which writes it in the form that its caller reads. */
export class DeliveryRefused extends Error {
  override readonly name = 'DeliveryRefused'
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(refusal.reason)
    this.refusal = refusal
  }
}

export interface LocalA2aOptions {
  todos: Todos
  clock: Clock
  /** what the agent's mode says now */
  reachability: (agent: LocalAgent) => Reachability
  /** the card in effect */
  card: (agent: LocalAgent) => JsonObject
  blockingWaitMs?: number
}

/** Both names of a send, and streaming sends (G-17); everything else is answered while asleep. */
export function isSend(method: string): boolean {
  return method === 'SendMessage' || method === 'SendStreamingMessage'
}

/** What all bindings share: which of our agents takes a call now, and the request handler that answers it. */
export class LocalA2a {
  readonly #options: LocalA2aOptions
  readonly #handlers = new WeakMap<LocalAgent, A2ARequestHandler>()

  constructor(options: LocalA2aOptions) {
    this.#options = options
  }

  get blockingWaitMs(): number {
    return this.#options.blockingWaitMs ?? BLOCKING_WAIT_DEFAULT_MS
  }

  card(agent: LocalAgent): JsonObject {
    return this.#options.card(agent)
  }

  reachability(agent: LocalAgent): Reachability {
    return this.#options.reachability(agent)
  }

  /**
   * Whether a checked call may be handled now. A message that came before is answered with its task even while the agent sleeps.
   * @param keep - stores the message for later and says how that went; called only where the mode queues
   * @returns `settled` when a send may wait for its end, `now` when the answer shows the task as it is
   * @throws DeliveryRefused; A2aError `UNSUPPORTED_OPERATION` (streams); RookeryError `MESSAGE_ID_REUSED`
   */
  async admit(
    agent: LocalAgent,
    call: { principal: Principal; method: A2aMethod; params: JsonObject },
    keep: (asleep: Reachability & { state: 'asleep' }) => Promise<Refusal>
  ): Promise<'settled' | 'now'> {
    if (call.method === 'SubscribeToTask') throw noStreams()
    if (!isSend(call.method)) return 'settled'
    const reachability = this.#options.reachability(agent)
    if (reachability.state === 'accepts') {
      if (call.method === 'SendStreamingMessage') throw noStreams()
      return 'settled'
    }
    const message = call.params.message as JsonObject
    if ((await this.#options.todos.ofMessage({ agent: homeOf(agent), caller: call.principal, message })) !== undefined) return 'now'
    if (reachability.queues) throw new DeliveryRefused(await keep(reachability))
    throw new DeliveryRefused({ reason: 'asleep', queued: false, retryAfterSec: reachability.retryAfterSec })
  }

  /** Calls once, when the task has ended; it may have already. */
  async ended(id: string, call: () => void): Promise<void> {
    const { todos } = this.#options
    const hasEnded = (todo: Todo | undefined) => todo === undefined || stateClass(todo.state) === 'terminal'
    const off = todos.onCommit((todo) => {
      if (todo.id === id && hasEnded(todo)) done()
    })
    let isDone = false
    const done = () => {
      if (isDone) return
      isDone = true
      off()
      call()
    }
    if (hasEnded(await todos.get(id))) done()
  }

  handler(agent: LocalAgent): A2ARequestHandler {
    let handler = this.#handlers.get(agent)
    if (handler === undefined) {
      const { todos, clock } = this.#options
      handler = createRequestHandler({
        agent,
        todos,
        clock,
        card: () => cardFromJson(this.#options.card(agent)),
        blockingWaitMs: this.blockingWaitMs
      })
      this.#handlers.set(agent, handler)
    }
    return handler
  }
}
