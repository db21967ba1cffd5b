import * as z from 'zod'
import { RookeryError } from '../errors.ts'
import { holdsHalfSurrogate, JSON_DEPTH_MAX, tooDeep } from './json-bounds.ts'
import type { JsonObject } from './todo.ts'

export const MESSAGE_ID_CHARS_MAX = 256
const PARTS_MAX = 1_000
const LIST_MAX = 100
/** Standard base64, as ProtoJSON writes it, and the URL-safe kind, which its readers take as well. */
const BASE64 = /^(?:[A-Za-z0-9+/]*={0,2}|[A-Za-z0-9_-]*={0,2})$/

const anyObject = z.looseObject({})

export const partSchema = z
  .looseObject({
    text: z.string().nullish(),
    raw: z.string().regex(BASE64, 'is not base64').nullish(),
    url: z.string().max(8_192).nullish(),
    metadata: anyObject.nullish(),
    filename: z.string().max(1_024).nullish(),
    mediaType: z.string().max(256).nullish()
  })
  .superRefine((value, context) => {
    const given = [value.text, value.raw, value.url].filter((one) => one !== undefined && one !== null).length + ('data' in value ? 1 : 0)
    if (given !== 1) context.addIssue({ code: 'custom', message: `has ${given} contents, not exactly one of text, raw, url, data` })
  })

/** An A2A 1.0 Message in ProtoJSON, as a client may send it: unknown members pass, `data: null` is a content. */
export const messageSchema = z.looseObject({
  messageId: z.string().min(1, 'is empty').max(MESSAGE_ID_CHARS_MAX),
  contextId: z.string().max(128).nullish(),
  taskId: z.string().max(128).nullish(),
  role: z.literal('ROLE_USER', 'is not ROLE_USER'),
  parts: z.array(partSchema).min(1, 'is empty').max(PARTS_MAX),
  metadata: anyObject.nullish(),
  extensions: z.array(z.string().max(2_048)).max(LIST_MAX).nullish(),
  referenceTaskIds: z.array(z.string().max(128)).max(LIST_MAX).nullish()
})

/** An A2A 1.0 Artifact in ProtoJSON. */
export const artifactSchema = z.looseObject({
  artifactId: z.string().min(1).max(256),
  name: z.string().max(1_024).optional(),
  description: z.string().optional(),
  parts: z.array(partSchema).min(1, 'is empty').max(PARTS_MAX),
  metadata: anyObject.optional()
})

/** The check that every door shares (TD-14). @throws RookeryError `MESSAGE_INVALID` */
export function checkMessage(message: JsonObject): void {
  if (tooDeep(message)) throw invalid('message', `nests deeper than ${JSON_DEPTH_MAX}`)
  if (holdsHalfSurrogate(message)) throw invalid('message', 'holds half a surrogate pair')
  const parsed = messageSchema.safeParse(message)
  if (parsed.success) return
  const [issue] = parsed.error.issues
  throw invalid(fieldPath(['message', ...(issue?.path ?? [])]), issue?.message ?? 'is not an A2A message')
}

/** `message.parts[0].raw` */
export function fieldPath(path: readonly PropertyKey[]): string {
  let out = ''
  for (const step of path) out += typeof step === 'number' ? `[${step}]` : `${out === '' ? '' : '.'}${String(step)}`
  return out
}

function invalid(field: string, why: string): RookeryError {
  return new RookeryError('MESSAGE_INVALID', `${field} ${why}`, { kind: 'usage', field, remedy: 'send a Message as A2A 1.0 writes it' })
}
