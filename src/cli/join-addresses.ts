import type { NodeStatus } from '../api/methods.ts'

/** Where others reach the node, as they write it after `--bootstrap`: each multiaddr ends in the PeerId that must answer there. */
export function joinAddresses({ addresses, node }: Pick<NodeStatus, 'addresses' | 'node'>): string[] {
  const peer = `/p2p/${node.peer}`
  return addresses.map((address) => (address.endsWith(peer) ? address : `${address}${peer}`))
}
