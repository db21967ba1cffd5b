import type { HostedAgent } from '../../src/identity/hosted-agent.ts'
import type { RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'

/** Resolves once a node finds an agent of another one: both know each other, and the locator is out. */
export async function found(node: RookeryNode, { eid }: HostedAgent): Promise<void> {
  const isFound = () =>
    node.locators.resolve(eid, { fresh: true }).then(
      () => true,
      () => false
    )
  while (!(await isFound())) await systemClock.sleep(20)
}
