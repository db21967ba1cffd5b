import type { Fault } from '../support/faulty-level.ts'
import type { AppliedChannel } from './crash-facts.ts'

/** What a node is started with, as JSON in its first argument. */
export interface NodeOrder {
  name: string
  /** fills the seeds of its keys */
  keyByte: number
  peerKeyByte: number
  directory: string
  factsPath: string
  /** UDP, on loopback */
  port: number
  peer?: { peer: string; addrs: string[] }
  /** who opens or takes up the session at once; `wait`: only as the product does by itself */
  opens: 'at once' | 'wait'
  /** by channel, the last item that was ever issued */
  issued: Record<number, number>
  /** a handler that cannot store its effect: lets the session end, or ends the process */
  onBroken: 'throw' | 'die'
  fault?: Fault
  seed: number
}

export interface TrafficOrder {
  /** items in all, at most; ends sooner by `stop` */
  items: number
  /** sends that wait at once */
  inFlight: number
  /** 1 to this */
  channels: number
  payloadBytesMax: number
  seed: number
}

/** To a node. */
export type Order =
  | { kind: 'peer'; peer: { peer: string; addrs: string[] } }
  | { kind: 'traffic'; traffic: TrafficOrder }
  | { kind: 'stop' }
  | { kind: 'fault'; fault: Fault }
  | { kind: 'poll'; id: number }
  | { kind: 'rows'; id: number; from: Record<number, number> }

export interface VectorView {
  seq: string
  hash: string
}

/** Where a node stands; vectors as its disk has them. */
export interface PollAnswer {
  session: string | undefined
  state: string | undefined
  unacked: number
  /** sends whose promise is open */
  outstanding: number
  tx: VectorView | undefined
  rx: VectorView | undefined
}

/** From a node. */
export type Report =
  | { kind: 'up'; peer: string; addrs: string[] }
  | { kind: 'broken' }
  | { kind: 'poll'; id: number; answer: PollAnswer }
  | { kind: 'rows'; id: number; applied: AppliedChannel[] }
