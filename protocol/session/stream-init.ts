import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import type { ChainPoint, ChannelHead } from './chain.ts'
import type { Direction } from './checkpoint.ts'
import type { StreamTimes } from './closing.ts'
import type { ContractMeter } from './contract.ts'
import type { Established } from './established.ts'
import { Journal } from './journal.ts'
import type { Known } from './ledger.ts'
import type { RekeyLimits } from './traffic-keys.ts'

/** The channel of control items, and the stream that carried the handshake. */
export const CONTROL_CHANNEL = 0
export const HANDSHAKE_STREAM = 0

/** Where a session stands between two epochs. */
export interface StreamCounters {
  /** ours; the roles of the current exchange say nothing of it */
  direction: Direction
  tx: ChainPoint
  rx: ChainPoint
  txHeads?: ReadonlyMap<number, ChannelHead>
  rxHeads?: ReadonlyMap<number, ChannelHead>
}

/** What READY goes on with behind the heads in a session with flag GROUP (protocol/README.md §6, READY): from the u8 count on. */
export interface ReadyGroups {
  write(): Uint8Array
  /**
   * The peer's, before anything of it takes effect. @param bytes - a view: copy what you keep
   * @throws ProtocolError where they cannot be read: VIOLATION
   */
  take(bytes: Uint8Array): void
}

/** A session that outlives its epochs: what the driver carries from one to the next. */
export interface CarriedState<T> {
  direction: Direction
  journal: Journal<T>
  /** the run whose effects are synced, and the channels' heads */
  rx: ChainPoint
  rxHeads: ReadonlyMap<number, ChannelHead>
  /** what was met beyond them */
  known: Map<bigint, Known>
  /** `new`: the first epoch, in which no snapshot may come */
  epoch: 'new' | 'resumed'
  /** this side came back without its ESE values */
  eseLost?: boolean
  /** this side's part in what READY says of groups; absent: it names none, and lets the peer's be */
  groups?: ReadyGroups
}

export interface SessionStreamInit<T> {
  crypto: CryptoProvider
  /** the stream takes over its keys: those of the directions are wiped at once, the rest with the epoch */
  established: Established
  /** signs for the local EID */
  signer: Signer
  /** monotonic, milliseconds */
  nowMs: number
  rekey?: RekeyLimits
  times?: StreamTimes
  /** absent: a new session, which begins at 0 and the chain secrets */
  counters?: StreamCounters
  /** in place of `counters`: what is unacknowledged goes on */
  carried?: CarriedState<T>
  /** holds the session to its contract, both ways; it outlives the epoch */
  contract?: ContractMeter
  /** bytes of transactions that may be on their way unacknowledged, see {@link inFlightBytesMax}; absent: only the windows bound them */
  inFlightBytesMax?: number
}

/** What an epoch begins with, whichever way it was told. */
export function carriedOf<T>({ crypto, established, counters, carried }: SessionStreamInit<T>): CarriedState<T> {
  if (carried !== undefined) return carried
  const { direction, tx, rx, txHeads, rxHeads } = counters ?? firstCounters(established)
  const journal = new Journal<T>(crypto, { ...tx, heads: txHeads })
  return { direction, journal, rx, rxHeads: rxHeads ?? new Map(), known: new Map(), epoch: 'resumed' }
}

function firstCounters({ keys, role }: Established): StreamCounters {
  const [mine, theirs] = role === 'initiator' ? [keys.i2r, keys.r2i] : [keys.r2i, keys.i2r]
  return {
    direction: role === 'initiator' ? 0 : 1,
    tx: { seq: 0n, hash: mine.chain.slice() },
    rx: { seq: 0n, hash: theirs.chain.slice() }
  }
}
