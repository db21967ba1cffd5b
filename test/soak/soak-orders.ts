import type { ConfigInput } from '../../src/config/schema.ts'

/** `rock` runs from the first minute to the last; the other two are stopped, or killed, and started again. */
export const SOAK_NODES = ['rock', 'leaver', 'sleeper'] as const
export type SoakName = (typeof SOAK_NODES)[number]

/** On every node: who asks and sends, and who answers. */
export const CALLER = 'caller'
export const WORKER = 'worker'
/** On the node `sleeper` alone: it sleeps, but for its wakes. */
export const SLEEPING_AGENT = 'dozer'
export const SOAK_SPACE = 'soak/topic@1'

/** How far apart the acts of one node are. */
export interface SoakPace {
  itemMs: number
  stateMs: number
  findMs: number
  mailMs: number
}

/** What a node of the soak is started with, as JSON. */
export interface SoakNodeOrder {
  name: SoakName
  directory: string
  config: ConfigInput
  /** DIDs of the workers of the other nodes */
  workers: { name: SoakName; did: string }[]
  /** DID of the agent that sleeps */
  dozer: string
  pace: SoakPace
  /** in every id of this life, so that no two lives give the same */
  life: number
}

export interface NodeSample {
  heapBytes: number
  rssBytes: number
  /** what keeps the loop busy: timers, sockets, requests to the file system */
  resources: number
  /** of EventTargets and of the process, that are still reachable */
  listeners: number
}

export interface NodeAudit {
  /** items that came and were not forgotten yet */
  items: string[]
  /** of tasks of the agent that sleeps: message id and task id */
  mail: { messageId: string; taskId: string; state: string }[]
  /** of those asked for */
  tasksMissing: string[]
  /** by session: what we wrote last, and what the mirror of the other's has; undefined where there is nothing, or it is lost and waits for its writer */
  states: { session: string; own: number | undefined; peer: number | undefined }[]
  /** sent and not acknowledged yet */
  underWay: number
  /** messages in the outbox that have not ended */
  outbox: number
}

export type SoakOrder =
  | { kind: 'load'; state: 'on' | 'off' }
  | { kind: 'space'; id: number }
  | { kind: 'members'; id: number }
  | { kind: 'sample'; id: number }
  | { kind: 'audit'; id: number; tasks: string[] }
  | { kind: 'forget'; id: number; items: string[] }
  /** what a node does hourly: the agent that sleeps wakes and sleeps again, what is past its time is swept */
  | { kind: 'hour'; id: number; after: 'asleep' | 'awake' }
  /** a search that needs work, whose first threads are ended under it */
  | { kind: 'discover'; id: number; threadsKilled: number }
  /** takes memory until there is none */
  | { kind: 'hog' }

export type SoakReport =
  | { kind: 'up'; address: string; httpUrl: string; opsUrl: string; token: string; dids: Record<string, string> }
  | { kind: 'acked'; to: SoakName; item: string }
  | { kind: 'mailed'; messageId: string }
  | { kind: 'did'; what: string }
  | { kind: 'failed'; what: string; code: string }
  | { kind: 'warning'; name: string; message: string }
  | { kind: 'sample'; id: number; sample: NodeSample }
  | { kind: 'audit'; id: number; audit: NodeAudit }
  | { kind: 'members'; id: number; count: number }
  | { kind: 'done'; id: number; error?: string }
