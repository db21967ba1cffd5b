import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { nodeKeyOf } from '../../src/identity/peer-id.ts'
import { secretText } from '../../src/identity/secret-text.ts'
import { derivedBytes, derivedRandom } from '../engine/seeds.ts'
import { BANDWIDTH } from '../net/latency.ts'
import { LinkModel } from '../net/link-model.ts'
import type { Definition } from '../scenario/definition.ts'
import type { Plan, PlannedNode } from '../scenario/events.ts'

export const P2P_PORT = 4_711
export const HOME = '/data'
/** Nodes that a new one knows of, beside the first */
const BOOTSTRAP_OTHERS = 2
const HOSTS_A_NET = 250

/** One node outside of this process: its name, its key, whom it begins with, how its link is shaped. */
export interface ExportedNode {
  name: string
  /** the text of its `node.key` */
  keyFile: string
  peer: string
  /** places of the nodes that it begins with */
  through: number[]
  planned: PlannedNode
  /** half of the mean way to all others: any two are about as far apart as their two delays come to */
  delayMs: number
  jitterMs: number
  lossPercent: number
  upBitsPerSec: number
}

export function exportedNodes(definition: Definition, { nodes }: Plan, seed: number): ExportedNode[] {
  const { network } = definition
  const link = new LinkModel(nodes, { ...network, jitter: 0, loss: 0, bandwidth: false }, derivedRandom(seed, 'export'))
  return nodes.map((planned): ExportedNode => {
    const { index, group } = planned
    const secret = derivedBytes(seed, 'node-key', index)
    const delayMs = Math.round(meanWayMs(link, nodes, index) / 2)
    const others = Array.from({ length: BOOTSTRAP_OTHERS }, (_, i) => Math.floor(index / (i + 2)))
    return {
      name: `${group.group}-${index}`,
      keyFile: JSON.stringify({
        v: 1,
        kind: 'node',
        seed: secretText(secret),
        public: Buffer.from(nodeCrypto.ed25519.publicKey(secret)).toString('hex')
      }),
      peer: nodeKeyOf(secret, nodeCrypto).peer,
      through: [...new Set([0, ...others])].filter((other) => other !== index),
      planned,
      delayMs,
      jitterMs: Math.round(delayMs * network.jitter),
      // each end loses half of what the link loses
      lossPercent: Math.round(network.loss * 50 * 1_000) / 1_000,
      upBitsPerSec: network.bandwidth ? BANDWIDTH[group.hardware].up * 8 : 0
    }
  })
}

function meanWayMs(link: LinkModel, nodes: readonly PlannedNode[], index: number): number {
  if (nodes.length < 2) return 0
  return nodes.reduce((sum, other) => sum + (other.index === index ? 0 : link.medianMs(index, other.index)), 0) / (nodes.length - 1)
}

/** An address of its own for each of the first 50,000 nodes, in 10.88.0.0/16. */
export function addressOf(index: number): string {
  return `10.88.${1 + Math.floor(index / HOSTS_A_NET)}.${2 + (index % HOSTS_A_NET)}`
}

/** The command that shapes what leaves a node, undefined where nothing is to be shaped. */
export function netemOf({ delayMs, jitterMs, lossPercent, upBitsPerSec }: ExportedNode): string | undefined {
  const words: string[] = []
  if (delayMs > 0) words.push(`delay ${delayMs}ms${jitterMs > 0 ? ` ${jitterMs}ms` : ''}`)
  if (lossPercent > 0) words.push(`loss ${lossPercent}%`)
  if (upBitsPerSec > 0) words.push(`rate ${upBitsPerSec}bit`)
  return words.length === 0 ? undefined : `tc qdisc add dev eth0 root netem ${words.join(' ')}`
}

/** What a container runs: the link's shape, an identity, then the node. */
export function startScript(node: ExportedNode, bootstrap: readonly string[]): string {
  const shape = netemOf(node)
  return [
    'set -eu',
    ...(shape === undefined ? [] : [shape]),
    'umask 077; mkdir -p "$ROOKERY_HOME"',
    `test -e "$ROOKERY_HOME/node.key" || printf '%s\\n' '${node.keyFile}' > "$ROOKERY_HOME/node.key"`,
    `exec rookery start --listen /ip4/0.0.0.0/udp/${P2P_PORT}/quic-v1,/ip4/0.0.0.0/tcp/${P2P_PORT}${bootstrap.length === 0 ? '' : ` --bootstrap ${bootstrap.join(',')}`}`
  ].join('\n')
}
