import { Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'

export const SFC_BYTES = 32
export const SFC_VERSION = 1

/** Where the work of the session may run. */
export const SFC_SITES = ['any', 'edge', 'cloud', 'device'] as const
export type SfcSite = (typeof SFC_SITES)[number]

/** Permission scopes, bit by bit. */
export const SFC_SCOPE = {
  READ_ESE: 1 << 0,
  WRITE_ESE: 1 << 1,
  SEND_MESSAGES: 1 << 2,
  CREATE_TASKS: 1 << 3,
  STREAM: 1 << 4,
  MAILBOX: 1 << 5,
  RELAY: 1 << 6
} as const
const SFC_SCOPES_KNOWN = 0x7f

/** The contract of a session, the same for both sides. Every limit is finite: zero means none of it (protocol/README.md §6, SFC block). */
export interface SfcBlock {
  readonly site: SfcSite
  /** u16 of {@link SFC_SCOPE} bits */
  readonly scopes: number
  readonly eseBytesMax: number
  readonly messagesPerMinuteMax: number
  readonly payloadBytesMax: number
  /** counted from the first handshake */
  readonly sessionSecondsMax: number
  readonly storedBytesMax: number
  /** u16 */
  readonly concurrentTasksMax: number
  /** u16, 0 for no region */
  readonly region: number
}

export type SfcField = keyof SfcBlock

/** In the order of the wire. */
export const SFC_FIELDS = [
  'site',
  'scopes',
  'eseBytesMax',
  'messagesPerMinuteMax',
  'payloadBytesMax',
  'sessionSecondsMax',
  'storedBytesMax',
  'concurrentTasksMax',
  'region'
] as const satisfies readonly SfcField[]

export function encodeSfc(block: SfcBlock): Uint8Array {
  return new Writer(SFC_BYTES)
    .u8(SFC_VERSION)
    .u8(SFC_SITES.indexOf(block.site))
    .u16(block.scopes)
    .u32(block.eseBytesMax)
    .u32(block.messagesPerMinuteMax)
    .u32(block.payloadBytesMax)
    .u32(block.sessionSecondsMax)
    .u32(block.storedBytesMax)
    .u16(block.concurrentTasksMax)
    .u16(block.region)
    .u32(0)
    .finish()
}

/**
 * @param bytes - exactly 32 bytes
 * @throws ProtocolError `LENGTH`; `FIELD_INVALID` naming the field for another version, an unknown site or scope, a reserved byte that is set
 */
export function decodeSfc(bytes: Uint8Array): SfcBlock {
  if (bytes.length !== SFC_BYTES)
    throw new ProtocolError('LENGTH', `an SFC block is ${SFC_BYTES} bytes, not ${bytes.length}`, { field: 'sfc' })
  const reader = new Reader(bytes)
  const version = reader.u8('sfc.version')
  if (version !== SFC_VERSION) throw invalid('version', `is ${version}, not ${SFC_VERSION}`)
  const site = SFC_SITES[reader.u8('sfc.site')]
  if (site === undefined) throw invalid('site', `is none of ${SFC_SITES.join(', ')}`)
  const scopes = reader.u16('sfc.scopes')
  if ((scopes & ~SFC_SCOPES_KNOWN) !== 0) throw invalid('scopes', `sets unknown bits (0x${scopes.toString(16)})`)
  const block: SfcBlock = {
    site,
    scopes,
    eseBytesMax: reader.u32('sfc.eseBytesMax'),
    messagesPerMinuteMax: reader.u32('sfc.messagesPerMinuteMax'),
    payloadBytesMax: reader.u32('sfc.payloadBytesMax'),
    sessionSecondsMax: reader.u32('sfc.sessionSecondsMax'),
    storedBytesMax: reader.u32('sfc.storedBytesMax'),
    concurrentTasksMax: reader.u16('sfc.concurrentTasksMax'),
    region: reader.u16('sfc.region')
  }
  if (reader.u32('sfc.reserved') !== 0) throw invalid('reserved', 'is not zero')
  return block
}

function invalid(field: string, why: string): ProtocolError {
  return new ProtocolError('FIELD_INVALID', `SFC block: ${field} ${why}`, { field: `sfc.${field}` })
}

/** The first field in which two blocks differ: at a resume another block than the stored one is refused. */
export function sfcDifference(a: SfcBlock, b: SfcBlock): SfcField | undefined {
  return SFC_FIELDS.find((field) => a[field] !== b[field])
}

/**
 * The first field by which an offer falls short of what the initiator needs: a scope that is missing, a limit that is lower, another site or
 * region than a particular one it names.
 */
export function sfcShortfall(offer: SfcBlock, needs: Partial<SfcBlock>): SfcField | undefined {
  return SFC_FIELDS.find((field) => {
    const need = needs[field]
    if (need === undefined) return false
    if (field === 'site') return need !== 'any' && offer.site !== need
    if (field === 'region') return need !== 0 && offer.region !== need
    if (field === 'scopes') return ((need as number) & ~offer.scopes) !== 0
    return offer[field] < (need as number)
  })
}
