import type { MessagePort } from 'node:worker_threads'
import type { Note } from '../net/direct-connection.ts'
import type { Definition } from '../scenario/definition.ts'
import type { Plan } from '../scenario/events.ts'

/** What a worker thread of a pool is given at its start. */
export interface PoolWorkerData {
  thread: number
  threads: number
  nodes: number
  seed: number
  plan: Plan
  network: Definition['network']
  /** to each other thread, by its number */
  ports: { thread: number; port: MessagePort }[]
}

/** From the pool to a worker, and back. */
export type PoolCall = { id: number; method: string; args: readonly unknown[] } | { cancel: number }
export type PoolReply =
  | { id: number; result: unknown }
  | { id: number; error: { message: string; code?: string; kind?: string } }
  | { progress: 'booted' | 'stopped' }
  | { settled: number }

/** Between two workers. Notes of one turn travel together. */
export type BridgeMessage =
  | { notes: { end: string; note: Note }[] }
  | { ask: number; connect: { id: string; from: { peer: string; index: number }; to: string } }
  | { ask: number; speaks: { to: string; protocol: string } }
  | { answer: number; value?: boolean; error?: string }

/** Which thread has a node. */
export function threadOf(index: number, threads: number): number {
  return index % threads
}
