import { createHash } from 'node:crypto'
import type { AgentHandler, HandlerSkill, SideEffects } from '../../tasks/handler.ts'
import type { JsonObject } from '../../tasks/todo.ts'

export const sideEffects: SideEffects = 'none'

export const skills: HandlerSkill[] = [
  {
    id: 'digest',
    name: 'SHA-256 of files',
    description: 'Takes file parts and gives back, for each, the lower-case SHA-256 hex of its bytes, its name and its size',
    tags: ['sha-256', 'file'],
    examples: ['A message with one raw file part']
  }
]

/** One data part for each file part; a `url` part is not fetched, so it has no digest. */
const digest: AgentHandler = async ({ message }) => {
  const files = (message.parts as JsonObject[]).filter((part) => typeof part.raw === 'string')
  if (files.length === 0) return { text: 'the message holds no file part' }
  return { artifacts: [{ artifactId: 'digests', name: 'SHA-256 digests', parts: files.map(digestPart) }] }
}

function digestPart(part: JsonObject): JsonObject {
  const bytes = Buffer.from(part.raw as string, 'base64')
  const filename = typeof part.filename === 'string' ? part.filename : ''
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  return { data: { filename, sizeBytes: bytes.length, sha256 }, mediaType: 'application/json' }
}

export default digest
