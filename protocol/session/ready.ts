import { Reader, Writer } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { type ChainPoint, type ChannelHead, HASH_BYTES } from './chain.ts'

const FLAG_ESE_LOST = 1
const FLAGS_KNOWN = FLAG_ESE_LOST
/** Channels of one direction of a session. */
export const CHANNELS_MAX = 64

/** Where a side stands as an exchange ends: what it has of the peer, what it sent, and the channels that are ahead of the run. */
export interface Ready {
  rx: ChainPoint
  tx: ChainPoint
  eseLost: boolean
  heads: Map<number, ChannelHead>
  /** with flag GROUP: all that follows the heads, from the u8 count on; read by whoever keeps the groups */
  groups?: Uint8Array | undefined
}

/** rx seq u64 ‖ rx hash 32 ‖ tx seq u64 ‖ tx hash 32 ‖ u8 flags ‖ u8 count ‖ (channel u16 ‖ number u64 ‖ digest 32)*, channels rising ‖ [groups]. */
export function encodeReady(ready: Ready): Uint8Array {
  const writer = new Writer(82 + 42 * ready.heads.size + (ready.groups?.length ?? 0))
    .u64(ready.rx.seq)
    .bytes(ready.rx.hash)
    .u64(ready.tx.seq)
    .bytes(ready.tx.hash)
    .u8(ready.eseLost ? FLAG_ESE_LOST : 0)
    .u8(ready.heads.size)
  for (const [channel, head] of [...ready.heads].sort(([a], [b]) => a - b)) writer.u16(channel).u64(head.seq).bytes(head.digest)
  if (ready.groups !== undefined) writer.bytes(ready.groups)
  return writer.finish()
}

/**
 * @param form - `with groups` in a session with flag GROUP: the rest behind the heads is handed back unread; else there is none
 * @returns byte fields are views into `payload`
 * @throws ProtocolError `TRUNCATED`, `TRAILING_BYTES`, `RANGE` (flags, count, a head not ahead of rx seq, channels not rising)
 */
export function decodeReady(payload: Uint8Array, form: 'plain' | 'with groups' = 'plain'): Ready {
  const reader = new Reader(payload)
  const rx = { seq: reader.u64('rxSeq'), hash: reader.bytes(HASH_BYTES, 'rxHash') }
  const tx = { seq: reader.u64('txSeq'), hash: reader.bytes(HASH_BYTES, 'txHash') }
  const flags = reader.u8('flags')
  if ((flags & ~FLAGS_KNOWN) !== 0) throw new ProtocolError('RANGE', `READY has unknown flags ${flags}`, { field: 'flags' })
  const count = reader.u8('count')
  if (count > CHANNELS_MAX) throw new ProtocolError('RANGE', `READY names ${count} channels, at most ${CHANNELS_MAX}`, { field: 'count' })
  const heads = new Map<number, ChannelHead>()
  let last = -1
  for (let i = 0; i < count; i++) {
    const channel = reader.u16('channel')
    const head = { seq: reader.u64('number'), digest: reader.bytes(HASH_BYTES, 'digest') }
    if (channel <= last) throw new ProtocolError('RANGE', `READY names channel ${channel} after ${last}`, { field: 'channel' })
    if (head.seq <= rx.seq) {
      throw new ProtocolError('RANGE', `READY's head of channel ${channel} is not ahead of rx seq`, { field: 'number' })
    }
    last = channel
    heads.set(channel, head)
  }
  const base = { rx, tx, eseLost: (flags & FLAG_ESE_LOST) !== 0, heads }
  if (form === 'with groups') return { ...base, groups: reader.bytes(reader.remaining, 'groups') }
  reader.end('READY')
  return base
}
