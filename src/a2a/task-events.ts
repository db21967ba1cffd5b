import { canonicalJson } from '../tasks/canonical-json.ts'
import type { Json, JsonObject, Todo } from '../tasks/todo.ts'
import { isObject } from './json-rpc.ts'
import { statusJson, taskJson } from './projection.ts'

/** Artifacts are told in pieces of about this size, a part that is larger by itself (contract §4). */
export const ARTIFACT_CHUNK_BYTES = 262_144

/** One event of a task's stream. Everyone who reads the task gets this very object, so its text is made once. */
export class TaskEvent {
  /** number of the commit that made it, or with a point and its place among several of one commit: unique and rising in a task */
  readonly id: string
  /** A2A StreamResponse in ProtoJSON */
  readonly response: JsonObject
  #text: string | undefined

  constructor(id: string, response: JsonObject) {
    this.id = id
    this.response = response
  }

  /** The response as JSON. */
  get text(): string {
    this.#text ??= JSON.stringify(this.response)
    return this.#text
  }
}

/** The whole task, as a stream begins. */
export function snapshotEvent(todo: Todo): TaskEvent {
  return new TaskEvent(String(todo.revision), { task: taskJson(todo) })
}

/** What a commit changed that a reader sees, in order: artifacts first, then the status. Nothing where a lease was renewed. */
export function eventsBetween(before: Todo, after: Todo): TaskEvent[] {
  const where = { taskId: after.id, contextId: after.contextId }
  const responses: JsonObject[] = []
  for (const artifact of after.artifacts) {
    const known = before.artifacts.find(({ artifactId }) => artifactId === artifact.artifactId)
    for (const update of artifactUpdates(known, artifact)) responses.push({ artifactUpdate: { ...where, ...update } })
  }
  const [was, is] = [statusOf(before), statusOf(after)]
  if (canonicalJson(was) !== canonicalJson(is)) {
    responses.push({
      statusUpdate: { ...where, status: statusJson(after), ...(after.attempt > 1 ? { metadata: { attempt: after.attempt } } : {}) }
    })
  }
  return responses.map((response, at) => new TaskEvent(eventId(after.revision, at, responses.length), response))
}

/** The last event of a commit goes by the commit's number alone: whoever has it has all of the commit. */
function eventId(revision: number, at: number, count: number): string {
  return at === count - 1 ? String(revision) : `${revision}.${at + 1}`
}

/** A status without its time, which moves by itself. */
function statusOf(todo: Todo): JsonObject {
  const { timestamp: _, ...status } = statusJson(todo)
  return { ...status, attempt: Math.max(todo.attempt, 1) }
}

function* artifactUpdates(known: JsonObject | undefined, artifact: JsonObject): Generator<JsonObject> {
  if (known === artifact) return
  const parts = Array.isArray(artifact.parts) ? artifact.parts : []
  const had = known !== undefined && Array.isArray(known.parts) ? known.parts : []
  if (known !== undefined && canonicalJson(known) === canonicalJson(artifact)) return
  const grows = known !== undefined && startsWith(parts, had) && sameFrame(known, artifact)
  const fresh = grows ? parts.slice(had.length) : parts
  const chunks = inChunks(fresh)
  for (const [at, chunk] of chunks.entries()) {
    const append = grows || at > 0
    yield {
      artifact: { ...artifact, parts: chunk },
      ...(append ? { append: true } : {}),
      ...(at === chunks.length - 1 ? { lastChunk: true } : {})
    }
  }
}

function startsWith(parts: readonly Json[], had: readonly Json[]): boolean {
  return (
    parts.length > had.length && had.every((part, at) => part === parts[at] || canonicalJson(part) === canonicalJson(parts[at] as Json))
  )
}

function sameFrame({ parts: _, ...one }: JsonObject, { parts: __, ...other }: JsonObject): boolean {
  return canonicalJson(one) === canonicalJson(other)
}

function inChunks(parts: readonly Json[]): Json[][] {
  const chunks: Json[][] = []
  let bytes = 0
  for (const part of parts) {
    const size = sizeOf(part)
    const last = chunks.at(-1)
    if (last === undefined || bytes + size > ARTIFACT_CHUNK_BYTES) {
      chunks.push([part])
      bytes = size
    } else {
      last.push(part)
      bytes += size
    }
  }
  return chunks
}

function sizeOf(part: Json): number {
  if (!isObject(part)) return 0
  return typeof part.raw === 'string' ? part.raw.length : typeof part.text === 'string' ? part.text.length : JSON.stringify(part).length
}

/** Where a reader stands: the commit of its last event, and its place in that one; undefined for what is no event's id. */
export function positionOf(id: string): { revision: number; at: number } | undefined {
  const match = /^(\d{1,15})(?:\.(\d{1,6}))?$/.exec(id)
  if (match === null) return undefined
  return { revision: Number(match[1]), at: match[2] === undefined ? Number.POSITIVE_INFINITY : Number(match[2]) }
}

/** Whether an event comes after a place in its stream. */
export function isAfter(id: string, place: { revision: number; at: number }): boolean {
  const position = positionOf(id)
  if (position === undefined) return false
  return position.revision > place.revision || (position.revision === place.revision && position.at > place.at)
}
