import { RookeryError } from '../errors.ts'
import { holdsHalfSurrogate, JSON_DEPTH_MAX, tooDeep } from './json-bounds.ts'
import { artifactSchema, fieldPath, MESSAGE_ID_CHARS_MAX, messageSchema } from './message.ts'
import type { JsonObject, Progress, TodoCreate } from './todo.ts'
import { dedupKeyInvalid, priorityInvalid, queueInvalid } from './todo-errors.ts'

export const PRIORITY_MAX = 9
const QUEUE_NAME = /^[A-Za-z0-9._-]{1,64}$/

/** What a create has beside its message. @throws RookeryError `PRIORITY_INVALID`, `QUEUE_INVALID`, `DEDUP_KEY_INVALID` */
export function checkCreate({ priority, queue, dedupKey }: TodoCreate): void {
  if (priority !== undefined && !(Number.isInteger(priority) && priority >= 0 && priority <= PRIORITY_MAX)) throw priorityInvalid(priority)
  if (queue !== undefined && !QUEUE_NAME.test(queue)) throw queueInvalid(queue)
  if (dedupKey !== undefined && (dedupKey.length === 0 || dedupKey.length > MESSAGE_ID_CHARS_MAX)) throw dedupKeyInvalid()
}

/** A message of an agent, whose ids and role may be left out. @throws RookeryError `MESSAGE_INVALID` */
export function checkAgentMessage(message: JsonObject): void {
  if (tooDeep(message)) throw invalid('MESSAGE_INVALID', 'message', `nests deeper than ${JSON_DEPTH_MAX}`)
  if (holdsHalfSurrogate(message)) throw invalid('MESSAGE_INVALID', 'message', 'holds half a surrogate pair')
  const parsed = messageSchema.safeParse({ ...message, messageId: message.messageId ?? 'own', role: 'ROLE_USER' })
  const [issue] = parsed.success ? [] : parsed.error.issues
  if (issue !== undefined) throw invalid('MESSAGE_INVALID', fieldPath(['message', ...issue.path]), issue.message)
}

/** @throws RookeryError `ARTIFACT_INVALID` */
export function checkArtifact(artifact: JsonObject, field = 'artifact'): void {
  if (tooDeep(artifact)) throw invalid('ARTIFACT_INVALID', field, `nests deeper than ${JSON_DEPTH_MAX}`)
  if (holdsHalfSurrogate(artifact)) throw invalid('ARTIFACT_INVALID', field, 'holds half a surrogate pair')
  const parsed = artifactSchema.safeParse(artifact)
  const [issue] = parsed.success ? [] : parsed.error.issues
  if (issue !== undefined) throw invalid('ARTIFACT_INVALID', fieldPath([field, ...issue.path]), issue.message)
}

/** @throws RookeryError `ARTIFACT_INVALID`, also for an id that is used twice */
export function checkArtifacts(artifacts: readonly JsonObject[]): void {
  const ids = new Set<unknown>()
  for (const [i, artifact] of artifacts.entries()) {
    const field = fieldPath(['artifacts', i])
    checkArtifact(artifact, field)
    if (ids.has(artifact.artifactId)) throw invalid('ARTIFACT_INVALID', `${field}.artifactId`, 'is used twice')
    ids.add(artifact.artifactId)
  }
}

/** @throws RookeryError `MESSAGE_INVALID`, `ARTIFACT_INVALID`, `PROGRESS_EMPTY` */
export function checkProgress({ message, artifact }: Progress): void {
  if (message !== undefined) checkAgentMessage(message)
  if (artifact !== undefined) checkArtifact(artifact)
  if (message !== undefined || artifact !== undefined) return
  throw new RookeryError('PROGRESS_EMPTY', 'progress needs a message or an artifact', {
    kind: 'usage',
    field: 'message',
    remedy: 'give at least one of message and artifact; to keep the lease alone, renew it'
  })
}

function invalid(code: 'MESSAGE_INVALID' | 'ARTIFACT_INVALID', field: string, why: string): RookeryError {
  const what = code === 'MESSAGE_INVALID' ? 'a Message' : 'an Artifact'
  return new RookeryError(code, `${field} ${why}`, { kind: 'usage', field, remedy: `send ${what} as A2A 1.0 writes it` })
}
