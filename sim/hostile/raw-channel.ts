import type { DirectNetwork } from '../net/direct-network.ts'

/** A stranger's connection to one node, to write whole streams to that nobody waits for. */
export interface RawChannel {
  /** One stream for each of `bodies`: opened for the protocol, and the body said, all at once. */
  send(protocol: string, bodies: readonly Uint8Array[]): void
  close(): Promise<void>
}

/** Calls a node under a PeerId that nobody has, past libp2p and all that would hold the caller back. */
export function openRawChannel(network: DirectNetwork, stranger: string, to: string): RawChannel {
  const end = network.call(stranger, to)
  let next = 0
  return {
    send(protocol, bodies) {
      for (const bytes of bodies) {
        const stream = next++
        end.send({ kind: 'open', stream, protocol })
        end.send({ kind: 'stream', stream, note: { kind: 'data', bytes } })
      }
    },
    close: async () => end.send({ kind: 'close' })
  }
}
