import type { Json, JsonObject, Todo } from '../tasks/todo.ts'
import { artifactOf, type TodoEvent } from '../tasks/trail.ts'
import { isObject } from './json-rpc.ts'
import { eventStatusJson, taskJson } from './projection.ts'

/** An artifact is told in pieces of about this size, a part that is larger by itself (contract §4). */
export const ARTIFACT_CHUNK_CHARS = 262_144

/** One event of a task's stream. Everyone who reads the task gets this very object, so its text is made once. */
export class TaskEvent {
  /** the number of the Todo's event, or with a point and its place among several that tell of one: unique and rising in a task */
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

/** Where a reader stands: the event that it has of the Todo, and how many of the pieces that tell of it. */
export interface StreamPlace {
  n: number
  piece: number
}

/** The whole task, as a stream begins. */
export function snapshotEvent(todo: Todo): TaskEvent {
  return new TaskEvent(String(todo.seq ?? 0), { task: taskJson(todo) })
}

/** What a reader sees of one event of a Todo: nothing of a message that only joined the history. */
export function eventsOf(todo: Todo, event: TodoEvent): TaskEvent[] {
  const where = { taskId: todo.id, contextId: todo.contextId }
  switch (event.kind) {
    case 'created':
    case 'message':
      return []
    case 'artifact': {
      const artifact = artifactOf(todo, event)
      const told = event.artifact
      if (artifact === undefined || told === undefined) return []
      const chunks = inChunks(artifact.parts)
      return chunks.map((parts, at) => {
        const isLast = at === chunks.length - 1
        const update: JsonObject = { ...where, artifact: { ...artifact, parts } }
        if (told.append || at > 0) update.append = true
        if (told.lastChunk && isLast) update.lastChunk = true
        return new TaskEvent(isLast ? String(event.n) : `${event.n}.${at + 1}`, { artifactUpdate: update })
      })
    }
    case 'claimed':
    case 'returned':
    case 'progress':
    case 'asked':
    case 'answered':
    case 'approved':
    case 'ended': {
      const more = event.attempt > 1 ? { metadata: { attempt: event.attempt } } : {}
      return [new TaskEvent(String(event.n), { statusUpdate: { ...where, status: eventStatusJson(todo, event), ...more } })]
    }
    default: {
      const unknown: never = event.kind
      throw new TypeError(`"${unknown}" is no event of a Todo`)
    }
  }
}

function inChunks(parts: Json | undefined): Json[][] {
  const chunks: Json[][] = []
  let chars = 0
  for (const part of Array.isArray(parts) ? parts : []) {
    const size = sizeOf(part)
    const last = chunks.at(-1)
    if (last === undefined || chars + size > ARTIFACT_CHUNK_CHARS) {
      chunks.push([part])
      chars = size
    } else {
      last.push(part)
      chars += size
    }
  }
  return chunks
}

function sizeOf(part: Json): number {
  if (!isObject(part)) return 0
  return typeof part.raw === 'string' ? part.raw.length : typeof part.text === 'string' ? part.text.length : JSON.stringify(part).length
}

/** The place that an event's id names; undefined for what is no id. */
export function placeOf(id: string): StreamPlace | undefined {
  const match = /^(\d{1,15})(?:\.(\d{1,6}))?$/.exec(id)
  if (match === null) return undefined
  return { n: Number(match[1]), piece: match[2] === undefined ? Number.POSITIVE_INFINITY : Number(match[2]) }
}

/** Whether an event comes after a place in its stream. */
export function isAfter(id: string, place: StreamPlace): boolean {
  const own = placeOf(id)
  return own !== undefined && (own.n > place.n || (own.n === place.n && own.piece > place.piece))
}
