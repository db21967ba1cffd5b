import { Reader, Writer } from '../../protocol/bytes.ts'
import { type Eid, eid } from '../../protocol/identity/eid.ts'
import type { ChainPoint, ChannelHead } from '../../protocol/session/chain.ts'
import type { Direction } from '../../protocol/session/checkpoint.ts'
import type { Position } from '../../protocol/session/ledger.ts'
import { SFC_BYTES } from '../../protocol/session/sfc.ts'
import type { PeerAddress } from '../net/host.ts'

const RECORD_VERSION = 1
const ADDRESSES_MAX = 8

/** A direction of a session as it stands on disk. */
export interface StoredPoint extends ChainPoint {
  heads: ReadonlyMap<number, ChannelHead>
}

/** A session as it stands on disk, its journal and positions apart. */
export interface SessionRecord {
  /** 16 bytes */
  sid: Uint8Array
  local: Eid
  remote: Eid
  /** 0 where the local side opened the first handshake */
  direction: Direction
  /** of the first handshake: SFC, EXCLUSIVE, GROUP */
  flags: number
  /** the contract block, byte for byte */
  sfc: Uint8Array | undefined
  openedAtMs: number
  activeAtMs: number
  /** where the peer was last reached */
  address: PeerAddress
  /** the journal's base */
  tx: StoredPoint
  /** the run whose effects are synced, at the last write of this record; positions beyond it stand beside it */
  rx: StoredPoint
}

function writePoint(writer: Writer, { seq, hash, heads }: StoredPoint): void {
  writer.u64(seq).bytes(hash).u8(heads.size)
  for (const [channel, head] of heads) writer.u16(channel).u64(head.seq).bytes(head.digest)
}

function readPoint(reader: Reader): StoredPoint {
  const seq = reader.u64('seq')
  const hash = reader.bytes(32, 'hash').slice()
  const heads = new Map<number, ChannelHead>()
  for (let left = reader.u8('heads'); left > 0; left--) {
    heads.set(reader.u16('channel'), { seq: reader.u64('number'), digest: reader.bytes(32, 'digest').slice() })
  }
  return { seq, hash, heads }
}

function writeText(writer: Writer, text: string): void {
  const bytes = new TextEncoder().encode(text)
  writer.u16(bytes.length).bytes(bytes)
}

function readText(reader: Reader): string {
  return new TextDecoder().decode(reader.bytes(reader.u16('length'), 'text'))
}

/** Big-endian, fixed fields first; numbers are u64, so counters neither wrap nor round (F076). */
export const sessionCodec = {
  encode(record: SessionRecord): Uint8Array {
    const writer = new Writer(512)
      .u8(RECORD_VERSION)
      .bytes(record.sid)
      .bytes(record.local)
      .bytes(record.remote)
      .u8(record.direction)
      .u16(record.flags)
      .u8(record.sfc === undefined ? 0 : 1)
      .bytes(record.sfc ?? new Uint8Array(0))
      .u64(BigInt(Math.trunc(record.openedAtMs)))
      .u64(BigInt(Math.trunc(record.activeAtMs)))
    writePoint(writer, record.tx)
    writePoint(writer, record.rx)
    const addrs = record.address.addrs.slice(0, ADDRESSES_MAX)
    writeText(writer, record.address.peer)
    writer.u8(addrs.length)
    for (const addr of addrs) writeText(writer, addr)
    return writer.finish()
  },
  decode(bytes: Uint8Array): SessionRecord {
    const reader = new Reader(bytes)
    const version = reader.u8('version')
    if (version !== RECORD_VERSION) throw new TypeError(`a session record of version ${version}`)
    const sid = reader.bytes(16, 'sid').slice()
    const local = eid(reader.bytes(32, 'local').slice())
    const remote = eid(reader.bytes(32, 'remote').slice())
    const direction = reader.u8('direction') === 0 ? 0 : 1
    const flags = reader.u16('flags')
    const sfc = reader.u8('contract') === 0 ? undefined : reader.bytes(SFC_BYTES, 'sfc').slice()
    const openedAtMs = Number(reader.u64('opened'))
    const activeAtMs = Number(reader.u64('active'))
    const tx = readPoint(reader)
    const rx = readPoint(reader)
    const peer = readText(reader)
    const addrs = Array.from({ length: reader.u8('addrs') }, () => readText(reader))
    return { sid, local, remote, direction, flags, sfc, openedAtMs, activeAtMs, tx, rx, address: { peer, addrs } }
  }
}

/** A transaction of the journal, without what is computed from the ones before. */
export interface StoredTransaction {
  kind: number
  channel: number
  atMs: number
  payload: Uint8Array
}

export const transactionCodec = {
  encode: ({ kind, channel, atMs, payload }: StoredTransaction): Uint8Array =>
    new Writer(11 + payload.length)
      .u8(kind)
      .u16(channel)
      .u64(BigInt(Math.trunc(atMs)))
      .bytes(payload)
      .finish(),
  decode(bytes: Uint8Array): StoredTransaction {
    const reader = new Reader(bytes)
    return { kind: reader.u8('kind'), channel: reader.u16('channel'), atMs: Number(reader.u64('at')), payload: reader.rest().slice() }
  }
}

export const positionCodec = {
  encode: ({ channel, prev, digest }: Position): Uint8Array => new Writer(42).u16(channel).u64(prev).bytes(digest).finish(),
  decode(bytes: Uint8Array): Position {
    const reader = new Reader(bytes)
    return { channel: reader.u16('channel'), prev: reader.u64('prev'), digest: reader.bytes(32, 'digest').slice() }
  }
}
