import { yamux } from '@chainsafe/libp2p-yamux'
import type { StreamMuxerFactory } from '@libp2p/interface'
import { memory } from '@libp2p/memory'
import { plaintext } from '@libp2p/plaintext'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import { concat, utf8 } from '../../protocol/bytes.ts'
import { RookeryError } from '../../src/errors.ts'

const MULTISTREAM = '/multistream/1.0.0'
const YAMUX_HEADER_BYTES = 12
const DATA = 0
const SYN = 1
/** Streams that the connection opened by itself have lower numbers; ours are odd as theirs. */
const FIRST_STREAM = 1_000_001

/** A stranger's connection to one node, to write whole streams to that nobody waits for. */
export interface RawChannel {
  /** One stream for each of `bodies`: opened, the protocol named and the body said, all in one write. */
  send(protocol: string, bodies: readonly Uint8Array[]): void
  close(): Promise<void>
}

/** Dials with a PeerId of its own. @param address - multiaddr that ends with the node's PeerId */
export async function openRawChannel(address: string, signal: AbortSignal): Promise<RawChannel> {
  let write: ((bytes: Uint8Array) => void) | undefined
  const muxer = (): StreamMuxerFactory => {
    const real = yamux({ enableKeepAlive: false })() as StreamMuxerFactory
    return {
      protocol: real.protocol,
      createStreamMuxer(connection) {
        write = (bytes) => void connection.send(bytes)
        return real.createStreamMuxer(connection)
      }
    }
  }
  const node = await createLibp2p({
    addresses: { listen: [] },
    transports: [memory()],
    connectionEncrypters: [plaintext()],
    streamMuxers: [muxer],
    connectionMonitor: { enabled: false }
  })
  await node.dial(multiaddr(address), { signal })
  if (write === undefined) throw new RookeryError('SIM_NOT_CONNECTED', 'a raw connection has no muxer', { kind: 'internal' })
  const channel = write
  let next = FIRST_STREAM
  return {
    send(protocol, bodies) {
      const negotiation = concat([line(MULTISTREAM), line(protocol)])
      channel(
        concat(
          bodies.flatMap((body) => {
            const header = frameHeader(next, negotiation.length + body.length)
            next += 2
            return [header, negotiation, body]
          })
        )
      )
    },
    close: async () => await node.stop()
  }
}

/** Data that opens a stream: version, type, flags, stream, length. */
function frameHeader(stream: number, length: number): Uint8Array {
  const header = new Uint8Array(YAMUX_HEADER_BYTES)
  const view = new DataView(header.buffer)
  view.setUint8(1, DATA)
  view.setUint16(2, SYN)
  view.setUint32(4, stream)
  view.setUint32(8, length)
  return header
}

/** multistream-select: the length of what follows, newline included, then the text. */
function line(text: string): Uint8Array {
  const bytes = utf8(`${text}\n`)
  return concat([Uint8Array.of(bytes.length), bytes])
}
