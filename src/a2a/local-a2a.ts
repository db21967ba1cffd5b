import type { Reachability } from '../../protocol/delivery/reachability.ts'
import { type Admission, type ExecutionContracts, underKey } from '../ecc/execution-contracts.ts'
import { type Access, makesTask, verbsOf } from '../grants/access.ts'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import { stateClass } from '../tasks/states.ts'
import type { Json, JsonObject, Todo, Todos } from '../tasks/todo.ts'
import type { Caller } from './caller.ts'
import { DeliveryRefused, isSend } from './delivery-refused.ts'
import { isObject } from './json-rpc.ts'
import type { Kept } from './keep-asleep.ts'
import { BLOCKING_WAIT_DEFAULT_MS, configOf, noPush, Operations } from './operations.ts'
import { type A2aMethod, isStream, type StreamMethod } from './params.ts'
import type { PushConfigs } from './push-configs.ts'
import type { TaskStream } from './task-stream.ts'
import type { TaskStreams } from './task-streams.ts'

export interface LocalA2aOptions {
  todos: Todos
  /** who may do what; the one check for all bindings (TD-35) */
  access: Pick<Access, 'authorize' | 'takeToken'>
  clock: Clock
  /** what the agent's mode says now */
  reachability: (agent: LocalAgent) => Reachability
  /** what waits for an agent that accepts is handed over before what it is sent now; absent: nothing waits */
  queuedFirst?: (agent: LocalAgent) => Promise<void>
  /** under which contracts our agents execute; absent: under none */
  contracts?: Pick<ExecutionContracts, 'admit'>
  /** the card in effect */
  card: (agent: LocalAgent) => JsonObject
  /** what only a caller with a credential sees; default: the card in effect */
  extendedCard?: (agent: LocalAgent, caller: Caller) => JsonObject | Promise<JsonObject>
  /** absent: streaming is off */
  streams?: TaskStreams
  /** absent: push notifications are off */
  push?: PushConfigs
  blockingWaitMs?: number
}

/** How a call that was let in goes on. */
export interface Admitted {
  wait: 'settled' | 'now'
  /** gives back what the message cost: it made nothing */
  repeated: () => void
  /** under which contract a send is executed (docs/edge-cloud-contract.md); absent: core A2A */
  admission?: Admission | undefined
}

const SETTLED: Admitted = { wait: 'settled', repeated: () => {} }

/** What all bindings share: which of our agents takes a call now, and the operations that answer it. */
export class LocalA2a {
  readonly #options: LocalA2aOptions
  readonly #operations = new WeakMap<LocalAgent, Operations>()

  constructor(options: LocalA2aOptions) {
    this.#options = options
  }

  get blockingWaitMs(): number {
    return this.#options.blockingWaitMs ?? BLOCKING_WAIT_DEFAULT_MS
  }

  /** Undefined where streaming is off. */
  get streams(): TaskStreams | undefined {
    return this.#options.streams
  }

  card(agent: LocalAgent): JsonObject {
    return this.#options.card(agent)
  }

  reachability(agent: LocalAgent): Reachability {
    return this.#options.reachability(agent)
  }

  /** @throws A2aError `UNAUTHENTICATED`, `PERMISSION_DENIED` */
  authorize(
    agent: LocalAgent,
    { principal, method, params }: { principal: VerifiedPrincipal; method: A2aMethod; params: JsonObject }
  ): void {
    for (const verb of verbsOf(method, params)) this.#options.access.authorize(principal, { agent: homeOf(agent), verb })
  }

  /**
   * Whether a checked call may be handled, and how (G-61): grant, contract, dedup, bucket, reachability. A message that came before is answered with its task even while the agent sleeps.
   * @param keep - stores the message for later and says how that went; called only where the mode queues
   * @returns `settled` when a send may wait for its end, `now` when the answer shows the task as it is; `repeated` is to be called where the message turns
   *   out to have come before
   * @throws DeliveryRefused; A2aError `UNAUTHENTICATED`, `PERMISSION_DENIED`, `SEND_RATE_LIMITED`, `PUSH_NOTIFICATION_NOT_SUPPORTED`; RookeryError
   *   `MESSAGE_ID_REUSED`
   */
  async admit(
    agent: LocalAgent,
    call: { principal: VerifiedPrincipal; method: A2aMethod; params: JsonObject; extensions?: readonly string[] | undefined },
    keep: (asleep: Reachability & { state: 'asleep' }) => Promise<Kept>
  ): Promise<Admitted> {
    const { access, todos, contracts } = this.#options
    const { principal, method, params, extensions = [] } = call
    this.authorize(agent, call)
    if (!isSend(method)) return SETTLED
    if (this.#options.push === undefined && isObject(configOf(params))) throw noPush()
    const reachability = this.#options.reachability(agent)
    const message = params.message as JsonObject
    const admission = contracts?.admit(homeOf(agent), { message, extensions })
    const named = admission?.dedupKey === undefined ? {} : { dedupKey: admission.dedupKey }
    const isKnown = async () =>
      (await underKey(admission, todos.ofMessage({ agent: homeOf(agent), caller: principal, message, ...named }))) !== undefined
    if (reachability.state === 'asleep' && (await isKnown())) return { wait: 'now', repeated: () => {}, admission }
    let repeated = () => {}
    if (makesTask(method, params)) {
      try {
        repeated = access.takeToken(principal)
      } catch (error) {
        if (reachability.state === 'accepts' && (await isKnown())) return { ...SETTLED, admission }
        throw error
      }
    }
    if (reachability.state === 'accepts') {
      await this.#options.queuedFirst?.(agent)
      return { wait: 'settled', repeated, admission }
    }
    if (reachability.queues) {
      const { again, ...refusal } = await keep(reachability)
      if (again === true) repeated()
      throw new DeliveryRefused(refusal)
    }
    throw new DeliveryRefused({ reason: 'asleep', queued: false, retryAfterSec: reachability.retryAfterSec })
  }

  /** An admitted call whose answer is one result, in ProtoJSON. @throws A2aError */
  async answer(agent: LocalAgent, method: Exclude<A2aMethod, StreamMethod>, params: JsonObject, caller: Caller): Promise<Json> {
    return await this.#of(agent).answer(method, params, caller)
  }

  /** An admitted call whose answer is a stream. @throws A2aError */
  async open(agent: LocalAgent, method: StreamMethod, params: JsonObject, caller: Caller): Promise<TaskStream> {
    return await this.#of(agent).open(method, params, caller)
  }

  /** Either, by the method. @throws A2aError */
  async call(agent: LocalAgent, method: A2aMethod, params: JsonObject, caller: Caller): Promise<{ result: Json } | { stream: TaskStream }> {
    if (isStream(method)) return { stream: await this.open(agent, method, params, caller) }
    return { result: await this.answer(agent, method, params, caller) }
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

  #of(agent: LocalAgent): Operations {
    let operations = this.#operations.get(agent)
    if (operations === undefined) {
      const { todos, clock, card, extendedCard, streams, push } = this.#options
      operations = new Operations({
        agent,
        todos,
        clock,
        streams,
        push,
        blockingWaitMs: this.blockingWaitMs,
        extendedCard: async (caller) => (extendedCard === undefined ? card(agent) : await extendedCard(agent, caller))
      })
      this.#operations.set(agent, operations)
    }
    return operations
  }
}
