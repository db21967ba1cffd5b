import type { TaskEventView } from '../api/task-methods.ts'
import type { JsonObject } from '../tasks/todo.ts'

interface Part {
  text?: string
  data?: unknown
  filename?: string
  url?: string
}

/** The parts of a message or artifact for a person: texts as they are, of files their names. */
export function partsText(holder: unknown): string {
  const { parts } = (holder ?? {}) as { parts?: Part[] }
  return (parts ?? [])
    .map((part) => part.text ?? (part.data !== undefined ? JSON.stringify(part.data) : `[${part.filename ?? part.url ?? 'file'}]`))
    .join('\n')
}

export interface TaskFacts {
  id: string
  contextId: string
  /** `completed`, `input-required` … */
  state: string
  /** of its status */
  message: string
  changedAt: string
  artifacts: { name: string; text: string }[]
}

/** A Task in ProtoJSON as a person reads it; what it lacks is empty. */
export function taskFacts(task: JsonObject): TaskFacts {
  const { id, contextId, status, artifacts } = task as {
    id?: string
    contextId?: string
    status?: { state?: string; message?: unknown; timestamp?: string }
    artifacts?: { artifactId?: string; name?: string }[]
  }
  return {
    id: id ?? '?',
    contextId: contextId ?? '',
    state: stateWord(status?.state),
    message: partsText(status?.message),
    changedAt: status?.timestamp ?? '',
    artifacts: (artifacts ?? []).map((one) => ({ name: one.name ?? one.artifactId ?? '', text: partsText(one) }))
  }
}

/** One line, or a few where its parts have more. */
export function taskEventText({ id, response }: TaskEventView): string {
  const { task, statusUpdate, artifactUpdate, message } = response as Record<string, JsonObject | undefined>
  if (task !== undefined) {
    const facts = taskFacts(task)
    return [`${id}  task ${facts.id}  ${facts.state}`, facts.message, ...facts.artifacts.map(({ text }) => text)].filter(Boolean).join('\n')
  }
  if (statusUpdate !== undefined) {
    const { state, message: said } = taskFacts(statusUpdate)
    return `${id}  ${state}${said === '' ? '' : `  ${said}`}`
  }
  if (artifactUpdate !== undefined) return `${id}  ${partsText(artifactUpdate.artifact)}`
  return `${id}  ${partsText(message)}`
}

function stateWord(state: string | undefined): string {
  return (state ?? '').replace('TASK_STATE_', '').replaceAll('_', '-').toLowerCase()
}
