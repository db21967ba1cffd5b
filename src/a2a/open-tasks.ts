import type { ProtocolError } from '../../protocol/errors.ts'
import type { ContractMeter, Flow } from '../../protocol/session/contract.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'
import { isSend } from './delivery-refused.ts'
import { isObject } from './json-rpc.ts'

const ENDED = new Set(['TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED'])

/** Whether a request may make a task: a message that names one goes into it. */
export function createsTask(method: string, params: JsonObject): boolean {
  return isSend(method) && isObject(params.message) && params.message.taskId === undefined
}

/**
 * The tasks that one side has running at the other under a contract. Both count from what passes between them, so whoever asks never holds fewer than
 * whoever works: a task is open from its request until an answer shows its end, or its worker tells of it.
 */
export class OpenTasks {
  readonly #contract: ContractMeter
  readonly #flow: Flow

  constructor(contract: ContractMeter, flow: Flow) {
    this.#contract = contract
    this.#flow = flow
  }

  /** Those that went on when the process before ended. */
  get ids(): ReadonlySet<string> {
    return this.#contract.tasks(this.#flow)
  }

  /** A request that may make one is on its way. @returns the breach, and nothing is counted */
  begin(): ProtocolError | undefined {
    return this.#contract.scopeRefusal('CREATE_TASKS') ?? this.#contract.hold(this.#flow, 'concurrentTasks', 1)
  }

  /** The request of a {@link begin} has its answer, or will have none. @returns the task's id where it goes on */
  answered(result: Json | undefined): string | undefined {
    const task = taskOf(result)
    if (task !== undefined && !task.ended && this.#contract.taskGoesOn(this.#flow, task.id)) return task.id
    this.#contract.release(this.#flow, 'concurrentTasks', 1)
    return undefined
  }

  /** Any answer, or the worker, shows a task. */
  seen(result: Json | undefined): void {
    const task = taskOf(result)
    if (task?.ended === true) this.ended(task.id)
  }

  ended(id: string): void {
    this.#contract.taskEnded(this.#flow, id)
  }
}

/** A2A's Task, alone, wrapped as SendMessage's result, or as an event of its stream shows it. */
function taskOf(result: Json | undefined): { id: string; ended: boolean } | undefined {
  if (!isObject(result)) return undefined
  const { statusUpdate } = result
  const task = isObject(result.task) ? result.task : isObject(statusUpdate) ? { ...statusUpdate, id: statusUpdate.taskId ?? null } : result
  const { id, status } = task
  if (typeof id !== 'string' || !isObject(status)) return undefined
  return { id, ended: typeof status.state === 'string' && ENDED.has(status.state) }
}
