import { pathToFileURL } from 'node:url'
import { SIDE_EFFECTS, type SideEffects } from '../../protocol/ecc/vocabulary.ts'
import { RookeryError } from '../errors.ts'
import type { JsonObject, Progress } from './todo.ts'

/** One Todo as a handler sees it. */
export interface HandlerTask {
  id: string
  contextId: string
  /** the verified principal that asked, `eid:<hex>` */
  caller: string
  /** the newest message of the caller, an A2A Message in ProtoJSON */
  message: JsonObject
  /** all messages, oldest first */
  history: readonly JsonObject[]
  /** 1 the first time; more after a failure or a crash */
  attempt: number
  /** the span of this attempt, for a handler that traces too; what it sends through the node is below it as it is */
  traceparent?: string
}

/** A2A Artifacts in ProtoJSON and, or, a text that becomes an artifact of its own; or a question, or a no. */
export interface HandlerResult {
  artifacts?: JsonObject[]
  text?: string
  /** the task waits for the caller's next message, which calls the handler again; `auth`: for its authorization */
  ask?: { text: string; for?: 'input' | 'auth' }
  /** the agent will not do it: rejected, with this reason */
  reject?: string
}

export interface HandlerContext {
  /** fires when the Todo is canceled or the node stops */
  readonly signal: AbortSignal
  /** Tells how far it is: on disk when it resolves. @throws RookeryError `LEASE_LOST`, `MESSAGE_INVALID`, `ARTIFACT_INVALID`, `TODO_LIMIT` */
  progress(progress: Progress & { text?: string }): Promise<void>
}

/**
 * What an agent does with a Todo. A throw is tried again, after a while, until the attempts are used up. Once the signal fires end: whatever is
 * returned afterwards is dropped.
 */
export type AgentHandler = (task: HandlerTask, context: HandlerContext) => Promise<HandlerResult | undefined>

/** A handler that declares `none` is called for up to 32 tasks side by side, every other one for one task after another. */
export { SIDE_EFFECTS, type SideEffects } from '../../protocol/ecc/vocabulary.ts'

export interface HandlerSkill {
  id: string
  name: string
  description: string
  tags: string[]
  examples?: string[]
}

export interface HandlerModule {
  handler: AgentHandler
  sideEffects: SideEffects
  skills: HandlerSkill[]
}

const BUILTIN = /^builtin:([a-z][a-z0-9-]{0,31})$/

/**
 * Loads `builtin:NAME`, or the ES module at an absolute path: default export the handler, optional exports `sideEffects` and `skills`.
 * @throws RookeryError `HANDLER_UNKNOWN`, `HANDLER_LOAD_FAILED`, `HANDLER_INVALID`
 */
export async function loadHandler(spec: string): Promise<HandlerModule> {
  const builtin = BUILTIN.exec(spec)?.[1]
  const module = builtin !== undefined ? await loadBuiltin(builtin) : await importModule(spec)
  const { default: handler, sideEffects = 'consequential', skills = [] } = module
  if (typeof handler !== 'function') throw invalid(spec, 'default export', 'is not a function (task, { signal }) => Promise')
  if (!SIDE_EFFECTS.includes(sideEffects as SideEffects)) throw invalid(spec, 'sideEffects', `is not one of ${SIDE_EFFECTS.join(', ')}`)
  if (!Array.isArray(skills) || !skills.every(isSkill)) throw invalid(spec, 'skills', 'is not a list of { id, name, description, tags }')
  return { handler: handler as AgentHandler, sideEffects: sideEffects as SideEffects, skills }
}

async function loadBuiltin(name: string): Promise<Record<string, unknown>> {
  switch (name) {
    case 'echo':
      return await import('../agents/builtin/echo.ts')
    case 'digest':
      return await import('../agents/builtin/digest.ts')
    default:
      throw new RookeryError('HANDLER_UNKNOWN', `there is no built-in handler "${name}"`, {
        kind: 'config',
        field: 'handler',
        value: `builtin:${name}`,
        remedy: 'use echo or digest, or the path of an ES module'
      })
  }
}

async function importModule(spec: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(spec).href)) as Record<string, unknown>
  } catch (cause) {
    throw new RookeryError(
      'HANDLER_LOAD_FAILED',
      `the handler module cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`,
      {
        kind: 'config',
        field: 'handler',
        value: spec,
        remedy: 'name echo, digest, or the path of an ES module that exports a handler by default',
        cause
      }
    )
  }
}

function isSkill(value: unknown): value is HandlerSkill {
  if (typeof value !== 'object' || value === null) return false
  const { id, name, description, tags } = value as Record<string, unknown>
  const texts = [id, name, description]
  return texts.every((one) => typeof one === 'string' && one !== '') && Array.isArray(tags) && tags.every((tag) => typeof tag === 'string')
}

function invalid(spec: string, member: string, why: string): RookeryError {
  return new RookeryError('HANDLER_INVALID', `the handler's ${member} ${why}`, { kind: 'config', field: `handler.${member}`, value: spec })
}
