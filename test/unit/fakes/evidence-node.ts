import { MemoryLevel } from 'memory-level'
import { utf8 } from '../../../protocol/bytes.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { createEvidence, type RunningEvidence } from '../../../src/evidence/create-evidence.ts'
import { LocalStakeLedger, type Slashing, type StakeLedger } from '../../../src/evidence/stake-ledger.ts'
import type { VerdictBookInit } from '../../../src/evidence/verdict-book.ts'
import type { LocalAgent } from '../../../src/identity/agent.ts'
import type { ManualClock } from '../../../src/platform/clock.ts'
import { silentLogger } from '../../../src/platform/logger.ts'
import { seededRandom } from '../../../src/platform/random.ts'
import { createLocators } from '../../../src/spaces/create-locators.ts'
import { createSpaces } from '../../../src/spaces/create-spaces.ts'
import { createRegistry, type Registry } from '../../../src/spaces/registry.ts'
import { Store, type WriteOp } from '../../../src/store/store.ts'
import type { FakeHost, FakeNetwork } from './fake-network.ts'
import { plainSolver } from './fake-node.ts'

/** Writes down every call; refuses as long as `down`. */
export class CountingLedger implements StakeLedger {
  readonly calls: Slashing[] = []
  readonly local: LocalStakeLedger
  down = false

  constructor(store: Store) {
    this.local = new LocalStakeLedger(store)
  }

  async slash(slashing: Slashing): Promise<readonly WriteOp[]> {
    if (this.down) throw new Error('the ledger is down')
    this.calls.push(slashing)
    return await this.local.slash(slashing)
  }
}

/** Evidence, registry, spaces and locators of a node over a fake host. */
export interface EvidenceNode {
  host: FakeHost
  store: Store
  ledger: CountingLedger
  evidence: RunningEvidence
  registry: Registry
  spaces: Awaited<ReturnType<typeof createSpaces>>
  locators: Awaited<ReturnType<typeof createLocators>>
  /** the process ends here and a new one opens the same store; `beginsLater` leaves it before it runs */
  restart(options?: { begin: 'later' }): Promise<void>
  stop(): Promise<void>
}

export async function evidenceNode(
  network: FakeNetwork,
  clock: ManualClock,
  name: string,
  agents: readonly LocalAgent[],
  init: VerdictBookInit = {}
): Promise<EvidenceNode> {
  const host = network.add(name)
  const store = new Store(new MemoryLevel<string, Uint8Array>({ keyEncoding: 'utf8', valueEncoding: 'view' }))
  const ledger = new CountingLedger(store)
  let opens = 0
  const open = async () => {
    const parts = {
      host,
      store,
      clock,
      random: seededRandom(100 * utf8(name).reduce((sum, byte) => sum + byte, 0) + opens++),
      crypto: nodeCrypto,
      logger: silentLogger
    }
    const evidence = await createEvidence({ ...parts, ledger, agents: () => agents }, init)
    const registry = await createRegistry({ ...parts, solver: plainSolver }, { evidence, handOver: 'by-hand' })
    const byHex = (hex: string) => agents.find((agent) => agent.eidHex === hex)
    const spaces = await createSpaces({ ...parts, registry, agents: byHex })
    const locators = await createLocators({ ...parts, agents: byHex, evidence })
    return { evidence, registry, spaces, locators }
  }
  const parts = await open()
  parts.evidence.begin(parts.registry)
  const node: EvidenceNode = {
    host,
    store,
    ledger,
    ...parts,
    async restart(options) {
      await this.stop()
      Object.assign(this, await open())
      if (options?.begin !== 'later') this.evidence.begin(this.registry)
    },
    async stop() {
      await this.evidence.stop()
      await this.spaces.stop()
      await this.locators.stop()
      await this.registry.stop()
    }
  }
  return node
}

/** Lets what is under way finish, then moves the clock, in steps. */
export async function passTime(clock: ManualClock, ms: number, nodes: readonly EvidenceNode[], stepMs = 10_000): Promise<void> {
  await quiet(nodes)
  for (let left = ms; left > 0; left -= stepMs) {
    clock.advance(Math.min(stepMs, left))
    await quiet(nodes)
  }
}

export async function quiet(nodes: readonly EvidenceNode[]): Promise<void> {
  for (let round = 0; round < 3; round++) {
    await new Promise((resolve) => setImmediate(resolve))
    for (const node of nodes) {
      await node.evidence.idle()
      await node.spaces.idle()
      await node.locators.idle()
      await node.registry.idle()
    }
  }
}
