import { controlHandlers } from '../../src/api/control-handlers.ts'
import type { ControlContext, ControlHandlers } from '../../src/api/control-server.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { SignIns } from '../../src/dashboard/sign-ins.ts'
import { homeOf } from '../../src/identity/agent.ts'
import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import { Traffic } from '../../src/net/traffic.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { openOps } from '../../src/ops/open-ops.ts'
import type { OpsServer } from '../../src/ops/ops-server.ts'
import { Vitals } from '../../src/ops/vitals.ts'
import { LogRing } from '../../src/platform/log-ring.ts'
import { createLogger } from '../../src/platform/pino-logger.ts'
import { LOOPBACK, nodeDir } from './node-dir.ts'

export const SPACE = 'org.agentnet/marketplace.energy@1'

/** A node that serves a dashboard, and two more that its agents deal with. */
export interface DashboardWorld {
  readonly home: RookeryNode
  readonly there: RookeryNode
  readonly third: RookeryNode
  /** of `home`: `bob` answers at once, `clerk` waits for a person, `owl` sleeps */
  readonly bob: HostedAgent
  readonly clerk: HostedAgent
  readonly owl: HostedAgent
  /** of `there` */
  readonly alice: HostedAgent
  /** of `third`, without a grant of anybody */
  readonly eve: HostedAgent
  readonly ops: OpsServer
  readonly signIns: SignIns
  readonly logs: LogRing
  readonly handlers: ControlHandlers
  readonly context: ControlContext
  /** a fresh one-time address */
  address(): string
  send(from: HostedAgent, to: HostedAgent, text: string, options?: { via?: 'mailbox'; waitMs?: number }): Promise<unknown>
  stop(): Promise<void>
}

export const QUIET: ControlContext = {
  signal: new AbortController().signal,
  progress() {},
  event() {},
  async emit() {},
  afterAnswer() {}
}

export async function dashboardWorld(config: ConfigInput = {}): Promise<DashboardWorld> {
  const closing: (() => Promise<void> | void)[] = []
  const logs = new LogRing()
  const traffic = new Traffic()
  const start = async (given: ConfigInput, overrides: Parameters<typeof createNode>[1] = {}) => {
    const dir = nodeDir()
    closing.push(() => dir.remove())
    const node = await createNode(
      { ...LOOPBACK, http: { enabled: false }, grants: { peers: 'required' }, dataDir: dir.path, ...given },
      overrides
    )
    closing.push(() => node.stop())
    return node
  }
  const logger = createLogger({ level: 'debug', levels: { libp2p: 'warn' }, sink: logs })
  const home = await start({ ops: { port: 0 }, ...config }, { traffic, logger })
  const bootstrap = home.host.addresses().map((address) => `${address}/p2p/${home.peer}`)
  const there = await start({ bootstrap })
  const third = await start({ bootstrap })
  const bob = await home.addAgent({ name: 'bob', handler: 'echo' })
  const clerk = await home.addAgent({ name: 'clerk' })
  const owl = await home.addAgent({ name: 'owl', handler: 'echo' })
  const alice = await there.addAgent({ name: 'alice' })
  const eve = await third.addAgent({ name: 'eve' })
  for (const agent of [bob, clerk, owl]) await home.grants.create({ agent: homeOf(agent), name: 'alice of the north', peer: alice.eidHex })
  await home.sleep(owl)
  const vitals = new Vitals(home, { traffic })
  const signIns = new SignIns(home)
  const ops = await openOps(home, { traffic, dashboard: { signIns, vitals, logs } })
  home.opsUrl = ops.url
  return {
    home,
    there,
    third,
    bob,
    clerk,
    owl,
    alice,
    eve,
    ops,
    signIns,
    logs,
    handlers: controlHandlers(home, { vitals, signIns }),
    context: QUIET,
    address: () => `${ops.url}/dashboard#${signIns.issue().code}`,
    send(from, to, text, options = {}) {
      const node = [home, there, third].find((one) => one.agents.list().includes(from)) as RookeryNode
      const message = { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text }] }
      return node.send(
        { from, to: to.eid, message },
        { waitMs: options.waitMs ?? 0, ...(options.via === undefined ? {} : { via: options.via }) }
      )
    },
    async stop() {
      for (const close of closing.reverse()) await close()
    }
  }
}
