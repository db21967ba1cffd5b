import { CborFields, decodeCbor, encodeCbor } from '../cbor.ts'
import { REACHABILITY_MODES, type ReachabilityMode } from '../delivery/modes.ts'
import { ProtocolError } from '../errors.ts'
import { textItem } from '../records/envelope.ts'
import { JOIN_TAGS_MAX, TAG_BYTES_MAX } from '../records/join.ts'
import { TAG } from './names.ts'

export const CRITERIA_BYTES_MAX = 512
/** An identity without a fault that whoever judges it knows of. */
export const REPUTATION_MAX = 100

/** What a request wants of those it is meant for (protocol/README.md §5). */
export interface Criteria {
  /** all of them must be present */
  readonly tags?: readonly string[]
  readonly mode?: ReachabilityMode
  /** 0 to 100, by what the judging node knows itself */
  readonly minReputation?: number
}

/** CBOR map without members that say nothing; the empty one is a single byte. @throws ProtocolError `TOO_LARGE` above 512 bytes */
export function encodeCriteria({ tags = [], mode, minReputation }: Criteria): Uint8Array {
  const bytes = encodeCbor({
    ...(tags.length === 0 ? {} : { tags: [...tags] }),
    ...(mode === undefined ? {} : { mode }),
    ...(minReputation === undefined ? {} : { minReputation })
  })
  if (bytes.length > CRITERIA_BYTES_MAX) {
    throw new ProtocolError('TOO_LARGE', `the criteria are ${bytes.length} bytes, at most ${CRITERIA_BYTES_MAX} are taken`, {
      field: 'criteria'
    })
  }
  return bytes
}

/** @throws ProtocolError `TOO_LARGE`, `CBOR_INVALID`, `CBOR_NOT_CANONICAL`, `FIELD_INVALID`, `FIELD_UNKNOWN` */
export function decodeCriteria(bytes: Uint8Array): Criteria {
  if (bytes.length > CRITERIA_BYTES_MAX) {
    throw new ProtocolError('TOO_LARGE', `the criteria are ${bytes.length} bytes, at most ${CRITERIA_BYTES_MAX} are taken`, {
      field: 'criteria'
    })
  }
  const fields = new CborFields(decodeCbor(bytes), 'criteria')
  const tags = fields.optional('tags', (name) =>
    fields.list(name, { min: 1, max: JOIN_TAGS_MAX }, textItem('criteria.tags', TAG_BYTES_MAX, TAG))
  )
  const mode = fields.optional('mode', (name) => fields.oneOf(name, REACHABILITY_MODES))
  const minReputation = fields.optional('minReputation', (name) => fields.uint(name, { max: REPUTATION_MAX }))
  fields.end()
  return {
    ...(tags === undefined ? {} : { tags }),
    ...(mode === undefined ? {} : { mode }),
    ...(minReputation === undefined ? {} : { minReputation })
  }
}

/** @param subject.reputation - 0 to 100, as the node that judges knows it */
export function meetsCriteria(
  subject: { readonly tags: readonly string[]; readonly mode?: ReachabilityMode; readonly reputation: number },
  { tags = [], mode, minReputation = 0 }: Criteria
): boolean {
  return (
    tags.every((tag) => subject.tags.includes(tag)) && (mode === undefined || subject.mode === mode) && subject.reputation >= minReputation
  )
}
