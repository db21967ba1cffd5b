import { z } from 'zod'
import { firstIssue } from '../api/methods.ts'
import { RookeryError } from '../errors.ts'
import { SIDE_EFFECTS } from '../tasks/handler.ts'
import { JSON_DEPTH_MAX, tooDeep } from '../tasks/json-bounds.ts'
import { TODO_STATES } from '../tasks/states.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'

const claim = z.string().regex(/^[0-9a-f]{32}$/, 'must be the claim that came with the task')
const object = z.record(z.string(), z.json())
const text = z.string().min(1).max(1_048_576)
const reason = z.string().min(1).max(1_000)
const leaseMs = z.int()

/** The members of each act, the same at every door. */
export const WORK_PARAMS = {
  claim: z.strictObject({
    leaseMs: leaseMs.optional(),
    waitMs: z.int().optional(),
    queue: z.string().max(64).optional(),
    sideEffects: z.enum(SIDE_EFFECTS).optional()
  }),
  renew: z.strictObject({ claim, leaseMs: leaseMs.optional() }),
  progress: z.strictObject({
    claim,
    text: text.optional(),
    message: object.optional(),
    artifact: object.optional(),
    append: z.boolean().optional(),
    lastChunk: z.boolean().optional()
  }),
  complete: z.strictObject({
    claim,
    text: text.optional(),
    artifacts: z.array(object).max(100).optional(),
    message: object.optional()
  }),
  fail: z.strictObject({ claim, reason, retry: z.boolean().optional() }),
  ask: z.strictObject({ claim, text: text.optional(), message: object.optional(), for: z.enum(['input', 'auth']).optional() }),
  reject: z.strictObject({ claim, reason }),
  release: z.strictObject({ claim }),
  list: z.strictObject({
    state: z.enum(TODO_STATES).optional(),
    limit: z.coerce.number().int().min(1).max(100).optional(),
    cursor: z.string().max(512).optional()
  })
} as const

export type WorkAct = keyof typeof WORK_PARAMS
export type WorkParams<A extends WorkAct> = z.infer<(typeof WORK_PARAMS)[A]>

/** @throws RookeryError `PARAMS_INVALID` with field, value and remedy */
export function parseWork<A extends WorkAct>(act: A, body: unknown): WorkParams<A> {
  if (tooDeep(body as Json)) {
    throw new RookeryError('PARAMS_INVALID', `${act}: the body nests deeper than ${JSON_DEPTH_MAX}`, {
      kind: 'usage',
      field: 'body',
      remedy: 'send flatter data'
    })
  }
  const parsed = WORK_PARAMS[act].safeParse(body)
  if (parsed.success) return parsed.data as WorkParams<A>
  const { field, value, message } = firstIssue(parsed.error, body)
  const name = field === '' ? 'the body' : field
  throw new RookeryError('PARAMS_INVALID', `${act}: ${name} ${message}`, {
    kind: 'usage',
    field: field === '' ? 'body' : field,
    ...(value === undefined || field === 'claim' ? {} : { value }),
    remedy: `give ${name} as docs/agents.md describes it`
  })
}

/** A message of the agent: as given, or made of a text. @throws RookeryError `PARAMS_INVALID` */
export function messageOf(given: { text?: string | undefined; message?: JsonObject | undefined }): JsonObject | undefined {
  if (given.text === undefined) return given.message
  if (given.message === undefined) return { parts: [{ text: given.text }] }
  throw new RookeryError('PARAMS_INVALID', 'text and message exclude each other', {
    kind: 'usage',
    field: 'text',
    remedy: 'put the text into the message'
  })
}

/** Artifacts as given, and one of the text. */
export function artifactsOf({
  artifacts = [],
  text: given
}: {
  artifacts?: JsonObject[] | undefined
  text?: string | undefined
}): JsonObject[] {
  return given === undefined ? artifacts : [...artifacts, { artifactId: 'text', name: 'text', parts: [{ text: given }] }]
}
