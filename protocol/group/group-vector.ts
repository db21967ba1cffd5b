import { Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { type Eid, eid } from '../identity/eid.ts'
import { GID_BYTES, READY_VECTOR_ENTRIES_MAX, RUN_BYTES, VECTOR_ENTRIES_MAX, WANT_OPS_MAX } from './bounds.ts'

const RUN_ENTRY_BYTES = 32 + RUN_BYTES + 8 + 32
/** First byte of a live message on the groups' channel. */
export const GROUP_LIVE = { vector: 0x01, want: 0x02 } as const

/** How far somebody holds one run: its first n ops, and the chain after them. */
export interface RunPoint {
  readonly writer: Eid
  readonly run: Uint8Array
  readonly n: bigint
  readonly gn: Uint8Array
}

/** One entry of READY's group part: a run of some group. */
export interface ReadyRun extends RunPoint {
  readonly gid: Uint8Array
}

/** u8 count ‖ (gid 16 ‖ writer 32 ‖ run 16 ‖ n u64 ‖ g_n 32)*: what READY goes on with under flag GROUP. @param runs - at most 255 */
export function encodeReadyRuns(runs: readonly ReadyRun[]): Uint8Array {
  if (runs.length > READY_VECTOR_ENTRIES_MAX) throw new RangeError(`${runs.length} runs in READY`)
  const writer = new Writer(1 + runs.length * (GID_BYTES + RUN_ENTRY_BYTES)).u8(runs.length)
  for (const { gid, ...point } of runs) writePoint(writer.bytes(gid), point)
  return writer.finish()
}

/** @returns views. @throws ProtocolError `TRUNCATED`, `RANGE` (n 0), `TRAILING_BYTES` */
export function decodeReadyRuns(bytes: Uint8Array): ReadyRun[] {
  const reader = new Reader(bytes)
  const count = reader.u8('count')
  const runs = Array.from({ length: count }, () => ({ gid: reader.bytes(GID_BYTES, 'gid'), ...readPoint(reader) }))
  reader.end('group part of READY')
  return runs
}

/** A live message: where a member stands in one group. It takes the place of what it said before. */
export interface GroupVector {
  readonly gid: Uint8Array
  /** of the newest statement that it holds; 0: it holds none, and may be told */
  readonly epoch: number
  /** bit i: it holds the key of epoch − i */
  readonly keys: number
  readonly runs: readonly RunPoint[]
}

/** 0x01 ‖ gid 16 ‖ u32 epoch ‖ u32 keys ‖ u8 count ‖ (writer 32 ‖ run 16 ‖ n u64 ‖ g_n 32)* */
export function encodeGroupVector({ gid, epoch, keys, runs }: GroupVector): Uint8Array {
  if (runs.length > VECTOR_ENTRIES_MAX) throw new RangeError(`${runs.length} runs in a vector`)
  const writer = new Writer(GID_BYTES + 10 + runs.length * RUN_ENTRY_BYTES)
    .u8(GROUP_LIVE.vector)
    .bytes(gid)
    .u32(epoch)
    .u32(keys)
    .u8(runs.length)
  for (const point of runs) writePoint(writer, point)
  return writer.finish()
}

/** @returns views. @throws ProtocolError `TRUNCATED`, `RANGE` (type, count, n 0), `TRAILING_BYTES` */
export function decodeGroupVector(bytes: Uint8Array): GroupVector {
  const reader = typed(bytes, GROUP_LIVE.vector)
  const gid = reader.bytes(GID_BYTES, 'gid')
  const epoch = reader.u32('epoch')
  const keys = reader.u32('keys')
  const count = reader.u8('count')
  if (count > VECTOR_ENTRIES_MAX) {
    throw new ProtocolError('RANGE', `a group vector of ${count} runs, at most ${VECTOR_ENTRIES_MAX}`, { field: 'group-vector.count' })
  }
  const runs = Array.from({ length: count }, () => readPoint(reader))
  reader.end('group vector')
  return { gid, epoch, keys, runs }
}

/** A live message: asks for `count` ops of a run from number `from` on. */
export interface GroupWant {
  readonly gid: Uint8Array
  readonly writer: Eid
  readonly run: Uint8Array
  readonly from: bigint
  readonly count: number
}

/** 0x02 ‖ gid 16 ‖ writer 32 ‖ run 16 ‖ from u64 ‖ count u16 */
export function encodeGroupWant({ gid, writer, run, from, count }: GroupWant): Uint8Array {
  return new Writer(GID_BYTES + 32 + RUN_BYTES + 11).u8(GROUP_LIVE.want).bytes(gid).bytes(writer).bytes(run).u64(from).u16(count).finish()
}

/** @returns views. @throws ProtocolError `TRUNCATED`, `RANGE` (type, from 0, count 0 or above 512), `TRAILING_BYTES` */
export function decodeGroupWant(bytes: Uint8Array): GroupWant {
  const reader = typed(bytes, GROUP_LIVE.want)
  const want = {
    gid: reader.bytes(GID_BYTES, 'gid'),
    writer: eid(reader.bytes(32, 'writer')),
    run: reader.bytes(RUN_BYTES, 'run'),
    from: reader.u64('from'),
    count: reader.u16('count')
  }
  reader.end('group want')
  if (want.from === 0n) throw new ProtocolError('RANGE', 'ops are numbered from 1', { field: 'group-want.from' })
  if (want.count === 0 || want.count > WANT_OPS_MAX) {
    throw new ProtocolError('RANGE', `${want.count} ops are asked for at once, at most ${WANT_OPS_MAX}`, { field: 'group-want.count' })
  }
  return want
}

function typed(bytes: Uint8Array, type: number): Reader {
  const reader = new Reader(bytes)
  const found = reader.u8('type')
  if (found !== type) throw new ProtocolError('RANGE', `a live message of groups has type ${found}, not ${type}`, { field: 'type' })
  return reader
}

function writePoint(writer: Writer, { writer: who, run, n, gn }: RunPoint): void {
  writer.bytes(who).bytes(run).u64(n).bytes(gn)
}

function readPoint(reader: Reader): RunPoint {
  const point = {
    writer: eid(reader.bytes(32, 'writer')),
    run: reader.bytes(RUN_BYTES, 'run'),
    n: reader.u64('n'),
    gn: reader.bytes(32, 'g_n')
  }
  if (point.n === 0n) throw new ProtocolError('RANGE', 'a run is told with its first op at least', { field: 'n' })
  return point
}
