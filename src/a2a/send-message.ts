import { type Eid, eidHex } from '../../protocol/identity/eid.ts'
import type { ExecutionStanding } from '../ecc/required-execution.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'
import { A2aError, rookeryErrorOf } from './a2a-error.ts'
import type { Asking } from './ask-agent.ts'
import { DeliveryRefused } from './delivery-refused.ts'
import type { Activated } from './edge.ts'
import { isObject } from './json-rpc.ts'
import { extensionsOf } from './keep-asleep.ts'
import type { A2aMethod, StreamMethod } from './params.ts'

/** What became of a message. */
export interface SendOutcome {
  /**
   * `task`: accepted, `task` holds it; `message`: answered directly; `queued`: the agent sleeps and its node has the message on disk; `asleep`:
   * it sleeps and nothing was queued; `queue-full`: a bound of its queue
   */
  outcome: 'task' | 'message' | 'queued' | 'asleep' | 'queue-full'
  /** A2A Task */
  task?: JsonObject
  /** A2A Message */
  message?: JsonObject
  /** what became of the execution requirements that went with it */
  execution?: ExecutionStanding
  asleep?: { status: 503 | 507 | 429; queued: boolean; retryAfterSec?: number; kind?: 'messages' | 'bytes' | 'peer'; message?: string }
}

export interface SendComponents {
  /** one operation on an agent, wherever it is: {@link askAgent} */
  ask(asking: Asking<Exclude<A2aMethod, StreamMethod>>, options: { signal: AbortSignal; activated?: Activated | undefined }): Promise<Json>
  clock: Clock
  /** as for HTTP: the longest message, in bytes of its JSON */
  messageBytesMax: number
}

/**
 * Sends an A2A message in the name of one of our agents, to another of ours or over a session. Where the task has not ended after `waitMs`, the very
 * same message is sent again without waiting: the receiver answers with the task as it is, and nothing runs twice.
 * @param options.activated - told which extensions the agent's answer names, also where the task is another one's
 * @throws RookeryError `MESSAGE_TOO_LARGE`, `MESSAGE_EXPIRED`, `MESSAGE_ID_REUSED`, `STORE_WRITE_FAILED`, and A2A's reasons as codes (`AGENT_UNREACHABLE`,
 * `OUTCOME_UNKNOWN` …); or the signal's reason
 */
export async function sendMessage(
  components: SendComponents,
  input: { from: LocalAgent; to: Eid; message: JsonObject },
  options: { waitMs: number; signal?: AbortSignal; activated?: (extensions: readonly string[]) => void }
): Promise<SendOutcome> {
  checkSize(components, input.message)
  const whole = options.signal ?? new AbortController().signal
  const extensions = extensionsOf(input.message)
  const call = async (wait: 'settled' | 'now', signal: AbortSignal): Promise<Json> => {
    const params: JsonObject = { message: input.message, ...(wait === 'now' ? { configuration: { returnImmediately: true } } : {}) }
    const { from, to } = input
    return await components.ask({ from, to, method: 'SendMessage', params, extensions }, { signal, activated: options.activated })
  }
  try {
    if (options.waitMs === 0) return outcomeOf(await call('now', whole))
    const patience = new AbortController()
    const cancel = components.clock.after(options.waitMs, () => patience.abort(WAITED))
    try {
      return outcomeOf(await call('settled', AbortSignal.any([whole, patience.signal])))
    } catch (error) {
      if (!patience.signal.aborted || whole.aborted || error instanceof DeliveryRefused) throw error
      return outcomeOf(await call('now', whole))
    } finally {
      cancel()
    }
  } catch (error) {
    whole.throwIfAborted()
    if (error instanceof DeliveryRefused) return outcomeOfRefusal(error, input)
    throw error instanceof A2aError ? rookeryErrorOf(error) : error
  }
}

/** @throws RookeryError `MESSAGE_TOO_LARGE` */
export function checkSize({ messageBytesMax }: Pick<SendComponents, 'messageBytesMax'>, message: JsonObject): void {
  const bytes = new TextEncoder().encode(JSON.stringify(message)).length
  if (bytes > messageBytesMax) {
    throw new RookeryError('MESSAGE_TOO_LARGE', `the message has ${bytes} bytes as JSON; at most ${messageBytesMax} are taken`, {
      kind: 'refused',
      field: 'message',
      value: bytes,
      remedy: 'send smaller files, or raise http.bodyBytesMax for agents of this node'
    })
  }
}

const WAITED = new DOMException('the caller waits no longer', 'TimeoutError')

function outcomeOf(result: Json): SendOutcome {
  if (isObject(result) && isObject(result.task)) return { outcome: 'task', task: result.task }
  if (isObject(result) && isObject(result.message)) return { outcome: 'message', message: result.message }
  throw new A2aError('INTERNAL_ERROR', 'the agent answered with neither a task nor a message')
}

/** What a refusal means to who sent the message; one that is about neither sleep nor a full queue is thrown. */
export function outcomeOfRefusal({ refusal }: DeliveryRefused, { to, message }: { to: Eid; message: JsonObject }): SendOutcome {
  switch (refusal.reason) {
    case 'asleep': {
      const hint = refusal.retryAfterSec === undefined ? {} : { retryAfterSec: refusal.retryAfterSec }
      return { outcome: refusal.queued ? 'queued' : 'asleep', asleep: { status: 503, queued: refusal.queued, ...hint } }
    }
    case 'queue-full': {
      const hint = refusal.retryAfterSec === undefined ? {} : { retryAfterSec: refusal.retryAfterSec }
      return { outcome: 'queue-full', asleep: { status: refusal.kind === 'peer' ? 429 : 507, queued: false, kind: refusal.kind, ...hint } }
    }
    case 'too-large':
      throw new RookeryError(
        'MESSAGE_TOO_LARGE',
        `the message is larger than the ${refusal.bytesMax} bytes that a sleeping agent's queue takes`,
        {
          kind: 'refused',
          field: 'message',
          remedy: 'send smaller files, or send when the agent is awake'
        }
      )
    case 'expired':
      throw new RookeryError('MESSAGE_EXPIRED', 'the message is past its end date there; the clocks may differ', {
        kind: 'refused',
        field: 'message',
        remedy: 'check the clock of this machine'
      })
    case 'conflict':
      throw new RookeryError('MESSAGE_ID_REUSED', 'the messageId was used for another message before', {
        kind: 'conflict',
        field: 'messageId',
        value: message.messageId,
        remedy: 'give every message an id of its own'
      })
    case 'store-failed':
      throw new RookeryError('STORE_WRITE_FAILED', 'the message could not be written; nothing was queued', {
        kind: 'storage',
        remedy: 'free space or mend the disk, then send again with the same messageId'
      })
    case 'unauthenticated':
      throw new RookeryError('UNAUTHENTICATED', `the node of ${eidHex(to).slice(0, 16)}… does not take messages from this caller`, {
        kind: 'refused'
      })
  }
}
