import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { eid, eidToDid } from '../../protocol/identity/eid.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { NatHost } from '../support/nat-namespaces.ts'
import { agentSeed, type NatOrder } from './nat-process.ts'

const PROGRAM = fileURLToPath(new URL('nat-process.ts', import.meta.url))
/** Seconds in which nothing moves at all are borne. */
const PATIENCE_MS = 90_000

/** A node that has nothing but its namespace. */
export class NatNode {
  readonly did: string
  peer = ''
  addresses: string[] = []
  readonly #number: number
  readonly #process: ChildProcess
  readonly #waiting = new Map<number, { resolve(answer: unknown): void; reject(error: Error): void }>()
  #next = 0

  constructor({ namespace }: NatHost, number: number) {
    this.#number = number
    this.did = eidToDid(eid(nodeCrypto.ed25519.publicKey(agentSeed(number))))
    this.#process = spawn('ip', ['netns', 'exec', namespace, process.execPath, '--no-warnings', PROGRAM], {
      stdio: ['ignore', process.env.ROOKERY_NAT_LOGS === undefined ? 'ignore' : 'inherit', 'inherit', 'ipc']
    })
    this.#process.on('message', ({ id, answer, error }: { id: number; answer?: unknown; error?: string }) => {
      const waiting = this.#waiting.get(id)
      this.#waiting.delete(id)
      if (error === undefined) waiting?.resolve(answer)
      else waiting?.reject(new Error(error))
    })
    this.#process.on('exit', (code) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`the node of the namespace ended with ${code}`))
    })
  }

  async start(agent: string, config: ConfigInput, handler?: 'echo'): Promise<this> {
    const told = await this.ask<{ peer: string; addresses: string[] }>({
      do: 'start',
      number: this.#number,
      config,
      agent,
      ...(handler === undefined ? {} : { handler })
    })
    Object.assign(this, told)
    return this
  }

  ask<T>(order: NatOrder): Promise<T> {
    const id = this.#next++
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as (answer: unknown) => void, reject })
      this.#process.send({ id, ...order })
    })
  }

  /** Asks again and again until the answer is such; says the last one where it never is. */
  async until<T>(order: NatOrder, isSuch: (answer: T) => boolean): Promise<T> {
    const endMs = systemClock.monotonicMs() + PATIENCE_MS
    for (;;) {
      const answer = await this.ask<T>(order).catch((error: Error) => error)
      if (!(answer instanceof Error) && isSuch(answer)) return answer
      if (systemClock.monotonicMs() > endMs)
        throw new Error(`${order.do}: still ${answer instanceof Error ? answer.message : JSON.stringify(answer)}`)
      await systemClock.sleep(200)
    }
  }

  get bootstrap(): string[] {
    return this.addresses.map((address) => `${address}/p2p/${this.peer}`)
  }

  kill(): void {
    this.#process.kill('SIGKILL')
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    await Promise.race([this.ask({ do: 'stop' }).catch(() => {}), systemClock.sleep(15_000)])
    this.kill()
  }
}
