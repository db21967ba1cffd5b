import type { MessagePort } from 'node:worker_threads'
import type { Note } from '../net/direct-connection.ts'
import type { Bridge, DirectNetwork } from '../net/direct-network.ts'
import type { BridgeMessage } from './pool-calls.ts'

/** Connections into other threads. */
export class ThreadBridge implements Bridge {
  readonly #network: DirectNetwork
  readonly #ports: ReadonlyMap<number, MessagePort>
  /** nodes of other threads: which thread, which node */
  readonly #peers: ReadonlyMap<string, { thread: number; index: number }>
  readonly #waiting = new Map<number, { resolve(value: boolean): void; reject(error: Error): void }>()
  readonly #notes = new Map<number, { end: string; note: Note }[]>()
  #asks = 0

  constructor(
    network: DirectNetwork,
    ports: ReadonlyMap<number, MessagePort>,
    peers: ReadonlyMap<string, { thread: number; index: number }>
  ) {
    this.#network = network
    this.#ports = ports
    this.#peers = peers
    for (const [thread, port] of ports) port.on('message', (message: BridgeMessage) => this.#receive(thread, message))
  }

  indexOf(peer: string): number | undefined {
    return this.#peers.get(peer)?.index
  }

  async connect(id: string, from: { peer: string; index: number }, to: string): Promise<void> {
    await this.#ask(to, (ask) => ({ ask, connect: { id, from, to } }))
  }

  speaks(to: string, protocol: string): Promise<boolean> {
    return this.#ask(to, (ask) => ({ ask, speaks: { to, protocol } }))
  }

  send(end: string, to: string, note: Note): void {
    const thread = this.#peers.get(to)?.thread
    if (thread === undefined) return
    const list = this.#notes.get(thread)
    if (list !== undefined) return void list.push({ end, note })
    this.#notes.set(thread, [{ end, note }])
    setImmediate(() => {
      const notes = this.#notes.get(thread) ?? []
      this.#notes.delete(thread)
      this.#ports.get(thread)?.postMessage({ notes } satisfies BridgeMessage)
    })
  }

  #ask(to: string, message: (ask: number) => BridgeMessage): Promise<boolean> {
    const port = this.#ports.get(this.#peers.get(to)?.thread ?? -1)
    if (port === undefined) return Promise.reject(new Error(`nobody listens at ${to}`))
    const ask = this.#asks++
    return new Promise((resolve, reject) => {
      this.#waiting.set(ask, { resolve, reject })
      port.postMessage(message(ask))
    })
  }

  #receive(thread: number, message: BridgeMessage): void {
    const answer = (reply: BridgeMessage) => this.#ports.get(thread)?.postMessage(reply)
    if ('notes' in message) {
      for (const { end, note } of message.notes) this.#network.receive(end, note)
    } else if ('answer' in message) {
      const waiting = this.#waiting.get(message.answer)
      this.#waiting.delete(message.answer)
      if (message.error === undefined) waiting?.resolve(message.value ?? true)
      else waiting?.reject(new Error(message.error))
    } else if ('speaks' in message) {
      answer({ answer: message.ask, value: this.#network.speaks(message.speaks.to, message.speaks.protocol) })
    } else {
      const { id, from, to } = message.connect
      try {
        this.#network.accept(id, from, to)
        answer({ answer: message.ask, value: true })
      } catch (error) {
        answer({ answer: message.ask, error: error instanceof Error ? error.message : String(error) })
      }
    }
  }

  close(): void {
    for (const port of this.#ports.values()) port.close()
  }
}
