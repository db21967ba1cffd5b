import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { JsonObject, Todo } from '../tasks/todo.ts'
import type { AgentWork, WorkDoor } from './agent-work.ts'
import { artifactsOf, messageOf, parseWork } from './work-params.ts'

export const HELD_ACTS = ['renew', 'progress', 'complete', 'fail', 'ask', 'reject', 'release'] as const
export type HeldAct = (typeof HELD_ACTS)[number]

/**
 * One act on a claimed Todo, from the body that any door was given.
 * @throws RookeryError `PARAMS_INVALID`, `TODO_UNKNOWN`, `LEASE_LOST`, `LEASE_INVALID`, `MESSAGE_INVALID`, `ARTIFACT_INVALID`, `TODO_LIMIT`
 */
export async function performAct(
  work: AgentWork,
  agent: LocalAgent,
  door: WorkDoor,
  { id, act, body }: { id: string; act: HeldAct; body: unknown }
): Promise<Todo> {
  switch (act) {
    case 'renew': {
      return await work.renew(agent, door, { id, ...parseWork('renew', body) })
    }
    case 'progress': {
      const { claim, artifact, append, lastChunk, ...said } = parseWork('progress', body)
      const message = messageOf(said as { text?: string; message?: JsonObject })
      return await work.progress(
        agent,
        door,
        { id, claim },
        defined({ message, artifact: artifact as JsonObject | undefined, append, lastChunk })
      )
    }
    case 'complete': {
      const { claim, message, ...result } = parseWork('complete', body)
      const artifacts = artifactsOf(result as { text?: string; artifacts?: JsonObject[] })
      return await work.complete(agent, door, { id, claim }, { artifacts, message: message as JsonObject | undefined })
    }
    case 'fail': {
      const { claim, reason, retry } = parseWork('fail', body)
      return await work.fail(agent, door, { id, claim }, { reason, again: retry === true ? 'retry' : 'never' })
    }
    case 'ask': {
      const { claim, for: wanted = 'input', ...said } = parseWork('ask', body)
      const message = messageOf(said as { text?: string; message?: JsonObject })
      if (message === undefined) throw questionMissing()
      return await work.ask(agent, door, { id, claim }, { for: wanted, message })
    }
    case 'reject': {
      const { claim, reason } = parseWork('reject', body)
      return await work.reject(agent, door, { id, claim }, reason)
    }
    case 'release':
      return await work.release(agent, door, { id, ...parseWork('release', body) })
    default: {
      const unknown: never = act
      throw new TypeError(`"${unknown}" is no act`)
    }
  }
}

function defined<T extends object>(given: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T
}

function questionMissing(): RookeryError {
  return new RookeryError('PARAMS_INVALID', 'ask: a question needs a text or a message', {
    kind: 'usage',
    field: 'text',
    remedy: 'say what the caller should answer'
  })
}
