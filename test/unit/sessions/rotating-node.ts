import type { Eid } from '../../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import type { AgentRecord, AgentStorage } from '../../../src/identity/agent-record.ts'
import { Agents } from '../../../src/identity/agents.ts'
import type { HostedAgent } from '../../../src/identity/hosted-agent.ts'
import type { ManualClock } from '../../../src/platform/clock.ts'
import { seededRandom } from '../../../src/platform/random.ts'
import { CrashingNode } from './crashing-node.ts'
import { type MemoryNet, memoryStore, type NodeInit } from './memory-net.ts'

/** Key files that outlive the process, and a process that can die at the write. */
export class KeyFiles implements AgentStorage {
  #record: AgentRecord | undefined
  /** copies of every EID's seed that was ever written, oldest first */
  readonly seeds: Uint8Array[] = []
  dies: 'before' | 'after' | undefined

  get record(): AgentRecord {
    return structuredClone(this.#record as AgentRecord)
  }

  load(): { record: AgentRecord; token: Uint8Array }[] {
    return this.#record === undefined ? [] : [{ record: this.record, token: new Uint8Array(32) }]
  }

  save(record: AgentRecord): void {
    if (this.dies === 'before') throw new Error('killed before the write')
    this.#record = structuredClone(record)
    if (!this.seeds.some((seed) => seed.every((byte, i) => byte === record.seed[i]))) this.seeds.push(record.seed.slice())
    if (this.dies === 'after') throw new Error('killed after the write')
  }

  saveToken(): void {}
  tokenFile(): undefined {}
}

/** A {@link CrashingNode} whose agent may take another EID, before and after it is killed. */
export class RotatingNode {
  readonly files = new KeyFiles()
  readonly node: CrashingNode
  readonly #clock: ManualClock
  readonly #seed: number
  agents!: Agents

  private constructor(net: MemoryNet, clock: ManualClock, seed: number, init: NodeInit) {
    this.#clock = clock
    this.#seed = seed
    this.node = new CrashingNode(net, clock, undefined as unknown as HostedAgent, seed, init)
  }

  static async create(net: MemoryNet, clock: ManualClock, seed: number, init: NodeInit = {}): Promise<RotatingNode> {
    const one = new RotatingNode(net, clock, seed, init)
    await one.start()
    return one
  }

  get agent(): HostedAgent {
    return this.node.agent as HostedAgent
  }

  get eid(): Eid {
    return this.agent.eid
  }

  get did(): string {
    return this.agent.did
  }

  /** As a process starts: agents from the key file, sessions from the disk, then what an earlier life began goes on. */
  async start(init: NodeInit = {}): Promise<void> {
    this.files.dies = undefined
    const components = {
      store: memoryStore(),
      crypto: nodeCrypto,
      clock: this.#clock,
      random: seededRandom(this.#seed * 64 + this.node.lives)
    }
    this.agents = await Agents.open({ ...components, storage: this.files }, { mode: 'always_on', handler: 'manual' })
    this.node.agent = this.agents.default ?? (await this.agents.add({ name: `agent-${this.#seed}` }))
    await this.node.start({ ...init, sessionAgents: this.agents })
    await this.node.manager.rotated(this.agent)
  }

  async rotate(): Promise<void> {
    this.agents.rotate(this.agent)
    await this.node.manager.rotated(this.agent)
  }
}
