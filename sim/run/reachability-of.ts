import { wakeWindowOf } from '../../protocol/delivery/reachability.ts'
import { eid } from '../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { BootInit } from '../engine/boot-node.ts'
import { derivedBytes } from '../engine/seeds.ts'
import type { PlannedNode } from '../scenario/events.ts'

/** The window that a real node's agent is given: the protocol's own second of the period, or the same for all. */
export function reachabilityOf(node: PlannedNode | undefined, seed: number): BootInit['reachability'] {
  if (node === undefined || node.group.reachability === 'always_on') return undefined
  const { reachability: mode, wake } = node.group
  if (mode !== 'hourly_wake') return { mode }
  const periodSec = Math.max(60, Math.round((wake?.period ?? 3_600_000) / 1_000))
  const openSec = Math.min(periodSec, Math.max(1, Math.round((wake?.open ?? 300_000) / 1_000)))
  const own = eid(nodeCrypto.ed25519.publicKey(derivedBytes(seed, 'agent-key', node.index)))
  const spread = wakeWindowOf(nodeCrypto, own, { periodSec, openSec })
  return { mode, window: wake?.jitter === false ? { ...spread, offsetSec: 0 } : spread }
}
