import { extname } from 'node:path'
import { MessageChannel, Worker } from 'node:worker_threads'
import { RookeryError, type RookeryErrorInit } from '../../src/errors.ts'
import type { ProtocolTraffic } from '../../src/net/traffic.ts'
import type { Definition } from '../scenario/definition.ts'
import type { Plan } from '../scenario/events.ts'
import type { Fact } from './facts.ts'
import type { AuditTotal, NodeAction, NodePool } from './node-pool.ts'
import type { Performed } from './performer.ts'
import { type PoolCall, type PoolReply, type PoolWorkerData, threadOf } from './pool-calls.ts'

/** MiB that the heap of one worker may come to */
const HEAP_MAX_MB = 4_096

interface Init {
  nodes: number
  seed: number
  threads: number
  plan: Plan
  network: Definition['network']
  signal: AbortSignal
}

interface Call {
  resolve(value: unknown): void
  reject(error: Error): void
  onProgress: (reply: PoolReply) => void
}

/** Real nodes in several worker threads; connections between them go straight from thread to thread. */
export class ThreadPool implements NodePool {
  readonly #workers: Worker[]
  readonly #init: Init
  readonly #calls = new Map<number, Call>()
  #ids = 0
  #isStopping = false

  constructor(init: Init) {
    this.#init = init
    const { threads, nodes, seed, plan, network } = init
    const ports: PoolWorkerData['ports'][] = Array.from({ length: threads }, () => [])
    for (let a = 0; a < threads; a++) {
      for (let b = a + 1; b < threads; b++) {
        const { port1, port2 } = new MessageChannel()
        ports[a]?.push({ thread: b, port: port1 })
        ports[b]?.push({ thread: a, port: port2 })
      }
    }
    const file = new URL(`./pool-worker${extname(import.meta.url)}`, import.meta.url)
    this.#workers = ports.map((own, thread) => {
      const workerData: PoolWorkerData = { thread, threads, nodes, seed, plan, network, ports: own }
      const worker = new Worker(file, {
        workerData,
        transferList: own.map(({ port }) => port),
        resourceLimits: { maxOldGenerationSizeMb: HEAP_MAX_MB }
      })
      worker.on('message', (reply: PoolReply) => this.#receive(reply))
      worker.on('error', (error) => this.#broke(error instanceof Error ? error : new Error(String(error))))
      worker.on('exit', () => this.#broke(new Error('a worker thread ended')))
      return worker
    })
  }

  #receive(reply: PoolReply) {
    if (!('id' in reply)) {
      for (const call of this.#calls.values()) call.onProgress(reply)
      return
    }
    const call = this.#calls.get(reply.id)
    this.#calls.delete(reply.id)
    if ('result' in reply) return call?.resolve(reply.result)
    const { message, code, kind } = reply.error
    call?.reject(code === undefined ? new Error(message) : new RookeryError(code, message, { kind: kind as RookeryErrorInit['kind'] }))
  }

  /** A thread that fails takes its calls with it. */
  #broke(error: Error): void {
    if (this.#isStopping) return
    for (const { reject } of this.#calls.values()) reject(error)
    this.#calls.clear()
  }

  #call<T>(
    thread: number,
    method: string,
    args: readonly unknown[] = [],
    { signal, onProgress }: { signal?: AbortSignal; onProgress?: Call['onProgress'] } = {}
  ): Promise<T> {
    const id = this.#ids++
    const worker = this.#workers[thread] as Worker
    const cancel = () => worker.postMessage({ cancel: id } satisfies PoolCall)
    signal?.addEventListener('abort', cancel, { once: true })
    return new Promise<T>((resolve, reject) => {
      this.#calls.set(id, { resolve: resolve as (value: unknown) => void, reject, onProgress: onProgress ?? (() => {}) })
      worker.postMessage({ id, method, args } satisfies PoolCall)
    }).finally(() => signal?.removeEventListener('abort', cancel))
  }

  #all<T>(
    method: string,
    args: readonly unknown[] = [],
    options: { signal?: AbortSignal; onProgress?: Call['onProgress'] } = {}
  ): Promise<T[]> {
    return Promise.all(
      this.#workers.map((_, thread) => this.#call<T>(thread, method, args, thread === 0 ? options : { ...options, onProgress: () => {} }))
    )
  }

  async boot(step: () => void): Promise<void> {
    const { signal } = this.#init
    await this.#call(0, 'bootFirst', [], { signal })
    step()
    await this.#all('boot', [], { signal, onProgress: (reply) => 'progress' in reply && reply.progress === 'booted' && step() })
  }

  async settle(progress: (settled: number) => void): Promise<void> {
    let left = this.#workers.length
    await Promise.all(
      this.#workers.map(async (_, thread) => {
        await this.#call(thread, 'settle', [], { signal: this.#init.signal })
        progress(Math.round((this.#init.nodes * (this.#workers.length - --left)) / this.#workers.length))
      })
    )
  }

  perform(action: NodeAction, signal: AbortSignal): Promise<Performed> {
    return this.#call(threadOf(action.node, this.#init.threads), 'perform', [action], { signal })
  }

  async partition(islands: readonly (readonly number[])[] | undefined): Promise<void> {
    await this.#all('partition', [islands])
  }

  async audit(awake: 'woken' | 'as-it-is', signal: AbortSignal): Promise<AuditTotal> {
    const parts = await this.#all<AuditTotal>('audit', [awake], { signal })
    return {
      facts: parts.flatMap(({ facts }) => facts),
      queued: parts.reduce((sum, { queued }) => sum + queued, 0),
      queuedMost: Math.max(...parts.map(({ queuedMost }) => queuedMost))
    }
  }

  async chains(nodes: readonly number[]): Promise<Fact[]> {
    const of = (thread: number) => nodes.filter((index) => threadOf(index, this.#init.threads) === thread)
    const parts = this.#workers.map(async (_, thread) => {
      const own = of(thread)
      return own.length === 0 ? [] : await this.#call<Fact[]>(thread, 'chains', [own])
    })
    return (await Promise.all(parts)).flat()
  }

  async links(max: number): Promise<[number, number][]> {
    return (await this.#all<[number, number][]>('links', [max])).flat()
  }

  async sent(): Promise<ProtocolTraffic[][]> {
    const parts = (await this.#all<{ index: number; list: ProtocolTraffic[] }[]>('sent')).flat()
    return parts.sort((a, b) => a.index - b.index).map(({ list }) => list)
  }

  async heapBytes(): Promise<number> {
    return (await this.#all<number>('heapBytes')).reduce((sum, bytes) => sum + bytes, 0)
  }

  async loop(): Promise<{ utilization: number; delayP99Ms: number }> {
    const all = await this.#all<{ utilization: number; delayP99Ms: number }>('loop')
    return { utilization: Math.max(...all.map((one) => one.utilization)), delayP99Ms: Math.max(...all.map((one) => one.delayP99Ms)) }
  }

  async stop(step: () => void): Promise<void> {
    await this.#all('stop', [], { onProgress: (reply) => 'progress' in reply && reply.progress === 'stopped' && step() }).catch(() => {})
    this.#isStopping = true
    await Promise.all(this.#workers.map((worker) => worker.terminate()))
  }
}
