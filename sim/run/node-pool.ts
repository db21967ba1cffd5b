import type { ProtocolTraffic } from '../../src/net/traffic.ts'
import type { SimAction } from '../scenario/events.ts'
import type { Fact } from './facts.ts'
import type { Performed } from './performer.ts'

export type NodeAction = Exclude<SimAction, { do: 'partition' | 'heal' | 'attack' }>

export interface AuditTotal {
  facts: Fact[]
  /** messages that wait, in all and at one node at most */
  queued: number
  queuedMost: number
}

/** Real nodes, wherever they run: in this thread, or in several. */
export interface NodePool {
  /** @param step - one more has joined */
  boot(step: () => void): Promise<void>
  settle(progress: (settled: number) => void): Promise<void>
  perform(action: NodeAction, signal: AbortSignal): Promise<Performed>
  partition(islands: readonly (readonly number[])[] | undefined): Promise<void>
  audit(awake: 'woken' | 'as-it-is', signal: AbortSignal): Promise<AuditTotal>
  /** where the sessions of these nodes stand, as each end says */
  chains(nodes: readonly number[]): Promise<Fact[]>
  /** who is connected with whom, of the first nodes */
  links(max: number): Promise<[number, number][]>
  /** by node, in the order of the plan */
  sent(): Promise<ProtocolTraffic[][]>
  /** bytes on all heaps after a collection */
  heapBytes(): Promise<number>
  /** the busiest thread, since the call before */
  loop(): Promise<{ utilization: number; delayP99Ms: number }>
  stop(step: () => void): Promise<void>
}
