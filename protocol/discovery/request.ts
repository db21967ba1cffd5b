import { Reader, Writer } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError, type ProtocolErrorCode } from '../errors.ts'
import { CRITERIA_BYTES_MAX, type Criteria, encodeCriteria } from './criteria.ts'
import { WORK_BITS_MAX, WORK_BITS_MIN, WORK_NONCE_BYTES } from './work.ts'

/** One request a stream, one stream a request. */
export const DISCOVERY_PROTOCOL = '/rookery/discovery/1.0.0'
export const DISCOVERY_VERSION = 1
export const DISCOVERY_REQ = 0x01
export const REQUEST_HEADER_BYTES = 120
/** Hops left, as a request arrives: at the first stem peer, the second, a registrar, a member. */
export const HOPS = { stem: 3, deliver: 2, registrar: 1, member: 0 } as const
export const FAN_OUT_MAX = 16
const RECORDS_FLAG = 1
const CONTACT_FLAG = 2

/** DISCOVERY_REQ (0x01): 120 bytes, then the criteria (protocol/README.md §5). */
export interface DiscoveryRequest {
  /** public records are wanted, from registrars */
  readonly records: boolean
  /** contact is wanted, from members */
  readonly contact: boolean
  /** claimed bits of work, 16 to 32 */
  readonly difficulty: number
  /** 0 to 3 */
  readonly hops: number
  /** 1 to 16 */
  readonly fanOut: number
  /** 1 to 512 */
  readonly criteriaBytes: number
  /** a member-set key or a GP coordinate, 32 bytes */
  readonly target: Uint8Array
  /** X25519 public key, 32 bytes, of this request alone */
  readonly ephemeral: Uint8Array
  /** Unix ms */
  readonly timestampMs: number
  /** H(criteria), 32 bytes */
  readonly criteriaHash: Uint8Array
  /** 8 bytes */
  readonly nonce: Uint8Array
}

/** A part of the header that no valid request has. */
export interface HeaderFault {
  readonly code: ProtocolErrorCode
  readonly field: string
}

const FAULTS = {
  version: { code: 'FRAME_VERSION', field: 'version' },
  type: { code: 'FRAME_TYPE', field: 'type' },
  flags: { code: 'FRAME_FLAGS', field: 'flags' },
  difficulty: { code: 'RANGE', field: 'difficulty' },
  hops: { code: 'RANGE', field: 'hops' },
  fanOut: { code: 'RANGE', field: 'fanOut' },
  criteriaBytes: { code: 'LENGTH', field: 'criteriaBytes' }
} as const satisfies Record<string, HeaderFault>

/**
 * The first part of a header that is out of its range, in the order version, type, the rest. Allocates nothing: it runs before a request has earned
 * any memory.
 * @param header - 120 bytes
 */
export function headerFault(header: Uint8Array): HeaderFault | undefined {
  const at = (i: number) => header[i] as number
  if (at(0) !== DISCOVERY_VERSION) return FAULTS.version
  if (at(1) !== DISCOVERY_REQ) return FAULTS.type
  if (at(2) < RECORDS_FLAG || at(2) > (RECORDS_FLAG | CONTACT_FLAG)) return FAULTS.flags
  if (at(3) < WORK_BITS_MIN || at(3) > WORK_BITS_MAX) return FAULTS.difficulty
  if (at(4) > HOPS.stem) return FAULTS.hops
  if (at(5) < 1 || at(5) > FAN_OUT_MAX) return FAULTS.fanOut
  const criteriaBytes = (at(6) << 8) | at(7)
  if (criteriaBytes < 1 || criteriaBytes > CRITERIA_BYTES_MAX) return FAULTS.criteriaBytes
  return undefined
}

/** The timestamp's place: read without decoding the rest. Beyond 2^53 it is rounded, which no clock comes near. */
export function headerTimestampMs(header: Uint8Array): number {
  let value = 0
  for (let i = 72; i < 80; i++) value = value * 256 + (header[i] as number)
  return value
}

/**
 * The header as it goes out with all its hops left and the nonce still to be found: bytes 112 to 119 are zero.
 * @throws ProtocolError `TOO_LARGE` (criteria), and what {@link headerFault} finds
 */
export function buildRequest(
  crypto: CryptoProvider,
  request: Pick<DiscoveryRequest, 'records' | 'contact' | 'difficulty' | 'fanOut' | 'target' | 'ephemeral' | 'timestampMs'>,
  wanted: Criteria
): { header: Uint8Array; criteria: Uint8Array } {
  const criteria = encodeCriteria(wanted)
  const header = encodeRequestHeader({
    ...request,
    hops: HOPS.stem,
    criteriaBytes: criteria.length,
    criteriaHash: crypto.sha256(criteria),
    nonce: new Uint8Array(WORK_NONCE_BYTES)
  })
  const fault = headerFault(header)
  if (fault !== undefined) throw asError(fault)
  return { header, criteria }
}

/** 120 bytes; lengths of byte fields are the caller's. */
export function encodeRequestHeader(request: DiscoveryRequest): Uint8Array {
  return new Writer(REQUEST_HEADER_BYTES)
    .u8(DISCOVERY_VERSION)
    .u8(DISCOVERY_REQ)
    .u8((request.records ? RECORDS_FLAG : 0) | (request.contact ? CONTACT_FLAG : 0))
    .u8(request.difficulty)
    .u8(request.hops)
    .u8(request.fanOut)
    .u16(request.criteriaBytes)
    .bytes(request.target)
    .bytes(request.ephemeral)
    .u64(BigInt(request.timestampMs))
    .bytes(request.criteriaHash)
    .bytes(request.nonce)
    .finish()
}

/**
 * @param header - 120 bytes
 * @returns byte fields are copies
 * @throws ProtocolError `LENGTH`, `FRAME_VERSION`, `FRAME_TYPE`, `FRAME_FLAGS`, `RANGE`
 */
export function decodeRequestHeader(header: Uint8Array): DiscoveryRequest {
  if (header.length !== REQUEST_HEADER_BYTES) {
    throw new ProtocolError('LENGTH', `a DISCOVERY_REQ header is ${REQUEST_HEADER_BYTES} bytes, not ${header.length}`, { field: 'header' })
  }
  const fault = headerFault(header)
  if (fault !== undefined) throw asError(fault)
  const timestampMs = headerTimestampMs(header)
  if (timestampMs > Number.MAX_SAFE_INTEGER)
    throw new ProtocolError('RANGE', 'the timestamp lies beyond 2^53 − 1', { field: 'timestampMs' })
  const reader = new Reader(header.slice())
  reader.bytes(2, 'version and type')
  const flags = reader.u8('flags')
  const difficulty = reader.u8('difficulty')
  const hops = reader.u8('hops')
  const fanOut = reader.u8('fanOut')
  const criteriaBytes = reader.u16('criteriaBytes')
  const target = reader.bytes(32, 'target')
  const ephemeral = reader.bytes(32, 'ephemeral')
  reader.bytes(8, 'timestampMs')
  return {
    records: (flags & RECORDS_FLAG) !== 0,
    contact: (flags & CONTACT_FLAG) !== 0,
    difficulty,
    hops,
    fanOut,
    criteriaBytes,
    target,
    ephemeral,
    timestampMs,
    criteriaHash: reader.bytes(32, 'criteriaHash'),
    nonce: reader.bytes(WORK_NONCE_BYTES, 'nonce')
  }
}

/** The same request with other hops left: what a hop sends on. Their byte is outside the work. */
export function withHops(header: Uint8Array, hops: number): Uint8Array {
  const next = header.slice()
  next[4] = hops
  return next
}

/** The same request with the nonce that was found. */
export function withNonce(header: Uint8Array, nonce: Uint8Array): Uint8Array {
  const next = header.slice()
  next.set(nonce, REQUEST_HEADER_BYTES - WORK_NONCE_BYTES)
  return next
}

function asError({ code, field }: HeaderFault): ProtocolError {
  return new ProtocolError(code, `${field} of the DISCOVERY_REQ is out of its range`, { field })
}
