import { Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'

const SNAPSHOT = 0x01
const CHANGE = 0x02
const SNAPSHOT_HEAD_BYTES = 9

/** What an op says once it is opened. */
export type OpBody =
  /** the writer's whole state; every run begins with one. Of two runs of a writer the one with the higher `started` counts */
  { kind: 'snapshot'; started: number; state: Uint8Array } | { kind: 'change'; op: Uint8Array }

/** 0x01 ‖ started u64 (Unix ms of the process start, raised above an earlier run's) ‖ state, or 0x02 ‖ ESE op */
export function encodeOpBody(body: OpBody): Uint8Array {
  if (body.kind === 'change') return new Writer(1 + body.op.length).u8(CHANGE).bytes(body.op).finish()
  return new Writer(SNAPSHOT_HEAD_BYTES + body.state.length).u8(SNAPSHOT).u64(BigInt(body.started)).bytes(body.state).finish()
}

/** @returns views. @throws ProtocolError `TRUNCATED`, `RANGE` */
export function decodeOpBody(bytes: Uint8Array): OpBody {
  const reader = new Reader(bytes)
  const type = reader.u8('type')
  if (type === CHANGE) return { kind: 'change', op: reader.rest() }
  if (type !== SNAPSHOT) throw new ProtocolError('RANGE', `a group op of type ${type}`, { field: 'group-op.type' })
  const started = reader.u64('started')
  if (started > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new ProtocolError('RANGE', 'the start of a run lies beyond 2^53 − 1', { field: 'group-op.started' })
  }
  return { kind: 'snapshot', started: Number(started), state: reader.rest() }
}
