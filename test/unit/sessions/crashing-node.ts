import { MemoryLevel } from 'memory-level'
import type { LocalAgent } from '../../../src/identity/agent.ts'
import type { ManualClock } from '../../../src/platform/clock.ts'
import type { RunningSessionManager } from '../../../src/sessions/create-session-manager.ts'
import type { Inbound, Session, SessionEvent } from '../../../src/sessions/session.ts'
import { jsonCodec, Store, type WriteOp } from '../../../src/store/store.ts'
import { MemoryHost, type MemoryNet, type NodeInit, nodeOn } from './memory-net.ts'

/** A database that stops answering when its process is killed: what was not committed by then never is. */
class MortalStore extends Store {
  #dead = false
  #fatal: { left: number; how: 'before' | 'after'; died: () => void } | undefined

  die(): void {
    this.#dead = true
  }

  /** The process dies at the `at`th write from now, which then is on disk or not. */
  dieAt(at: number, how: 'before' | 'after', died: () => void): void {
    this.#fatal = { left: at, how, died }
  }

  override async commit(ops: readonly WriteOp[]): Promise<void> {
    if (this.#dead) return await new Promise(() => {})
    const fatal = this.#fatal
    if (fatal !== undefined && --fatal.left === 0) {
      if (fatal.how === 'after') await super.commit(ops)
      fatal.died()
      return await new Promise(() => {})
    }
    await super.commit(ops)
    if (this.#dead) return await new Promise(() => {})
  }
}

type Level = MemoryLevel<string, Uint8Array>

/** A node that can be killed and started again on what its disk then holds, or on an earlier copy of it. */
export class CrashingNode {
  readonly net: MemoryNet
  readonly clock: ManualClock
  agent: LocalAgent
  /** what its handlers were given, over all its lives */
  readonly handled: string[] = []
  readonly events: SessionEvent[] = []
  readonly #seed: number
  readonly #init: NodeInit
  #level: Level = newLevel()
  #host!: MemoryHost
  #store!: MortalStore
  manager!: RunningSessionManager
  sessions: Session[] = []
  lives = 0
  #applied = 0

  constructor(net: MemoryNet, clock: ManualClock, agent: LocalAgent, seed: number, init: NodeInit = {}) {
    this.net = net
    this.clock = clock
    this.agent = agent
    this.#seed = seed
    this.#init = init
  }

  get peer(): string {
    return this.#host.peer
  }

  get host(): MemoryHost {
    return this.#host
  }

  async start(init: NodeInit = {}): Promise<this> {
    this.lives += 1
    this.#host = new MemoryHost(this.net, this.#seed)
    this.#store = new MortalStore(this.#level)
    const node = await nodeOn(
      this.#host,
      this.clock,
      [this.agent],
      {
        ...this.#init,
        ...init,
        store: this.#store,
        handler: async (item: Inbound) => {
          await (init.handler ?? this.#init.handler)?.(item)
          this.handled.push(new TextDecoder().decode(item.payload.subarray(0, 64)))
        }
      },
      this.#seed * 16 + this.lives
    )
    this.manager = node.manager
    this.sessions = node.sessions
    this.manager.onEvent((event) => this.events.push(event))
    return this
  }

  open(to: CrashingNode): Promise<Session> {
    return this.manager.open(this.agent, to.agent.eid, { peer: to.peer, addrs: [] })
  }

  /** SIGKILL: nothing more is written or said. `silent`: nor does the network tell. */
  async kill({ network = 'tells' }: { network?: 'tells' | 'silent' } = {}): Promise<void> {
    this.#store.die()
    this.#host.vanish()
    this.net.hosts.delete(this.peer)
    if (network === 'silent') this.net.mute(this.peer)
    else for (const other of [...this.net.hosts.keys()]) this.net.cut(this.peer, other)
    void this.manager.stop().catch(() => {})
  }

  /** SIGKILL at the `at`th write from now. @returns resolves then */
  killAt(at: number, how: 'before' | 'after'): Promise<void> {
    return new Promise((resolve) => this.#store.dieAt(at, how, () => void this.kill().then(resolve)))
  }

  commit(ops: readonly WriteOp[]): Promise<void> {
    return this.#store.commit(ops)
  }

  /** Stores what a message does in one batch with where the session then stands: the shape that exactly-once asks of a handler. */
  async apply(item: Inbound): Promise<void> {
    const word = new TextDecoder().decode(item.payload)
    const effects = this.#store.table('effects', jsonCodec<string>())
    await this.#store.commit([effects.put(`${this.lives}-${this.#applied++}`, word), ...item.position()])
  }

  /** Everything that was applied and is on disk, over all lives. */
  async applied(): Promise<string[]> {
    const words: string[] = []
    for await (const [, word] of this.#store.table('effects', jsonCodec<string>()).entries()) words.push(word)
    return words
  }

  /** What a copy of the data directory holds now. */
  async backup(): Promise<Level> {
    const copy = newLevel()
    for await (const [key, value] of this.#level.iterator()) await copy.put(key, value)
    return copy
  }

  /** The next start finds this in place of the disk. */
  restore(copy: Level): void {
    this.#level = copy
  }

  forget(): void {
    this.#level = newLevel()
  }
}

function newLevel(): Level {
  return new MemoryLevel<string, Uint8Array>({ valueEncoding: 'view' })
}
