import type { ComponentLogger, Connection, PeerId, Upgrader } from '@libp2p/interface'
import { peerIdFromString } from '@libp2p/peer-id'
import { CODE_MEMORY, CODE_P2P, type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { DirectConnection, type Note, type Wire } from './direct-connection.ts'
import type { LinkModel } from './link-model.ts'
import { Post } from './post.ts'

/** Bytes of a note that carries no data: a QUIC packet with one small frame. */
const NOTE_BYTES = 60

/** A node that listens in this thread. */
export interface Listening {
  readonly peer: PeerId
  readonly index: number
  readonly upgrader: Upgrader
  readonly logger: ComponentLogger
  readonly signal: AbortSignal
  speaks(protocol: string): boolean
}

/** Threads beside this one: what their nodes are called, and how to reach them. */
export interface Bridge {
  /** undefined: no such node anywhere */
  indexOf(peer: string): number | undefined
  /** resolves once the other thread has taken the connection */
  connect(id: string, from: { peer: string; index: number }, to: string): Promise<void>
  send(id: string, to: string, note: Note): void
  speaks(to: string, protocol: string): Promise<boolean>
}

interface End {
  readonly connection: DirectConnection
}

/** All nodes of this thread, and the links between them. */
export class DirectNetwork {
  readonly link: LinkModel
  readonly #post = new Post()
  readonly #listening = new Map<string, Listening>()
  readonly #ends = new Map<string, End>()
  readonly #thread: string
  bridge: Bridge | undefined
  #connections = 0
  #ports = 0
  /** messages that crossed a link, and their bytes */
  readonly carried = { notes: 0, bytes: 0 }

  constructor(link: LinkModel, thread = '0') {
    this.link = link
    this.#thread = thread
  }

  listen(node: Listening): void {
    this.#listening.set(node.peer.toString(), node)
  }

  unlisten(peer: PeerId): void {
    this.#listening.delete(peer.toString())
  }

  /** @throws Error where nobody listens there, or nothing passes */
  async dial(from: Listening, to: string, options: { signal: AbortSignal; upgrader: Upgrader }): Promise<Connection> {
    const target = this.#listening.get(to)
    const toIndex = target?.index ?? this.bridge?.indexOf(to)
    if (toIndex === undefined) throw new Error(`nobody listens at ${to}`)
    const id = `${this.#thread}:${this.#connections++}`
    // a handshake is a round trip
    const handshakeMs = this.link.delayMs(from.index, toIndex, NOTE_BYTES) + this.link.delayMs(toIndex, from.index, NOTE_BYTES)
    if (handshakeMs > 0) await new Promise<void>((resolve) => this.#post.deliver(handshakeMs, resolve))
    options.signal.throwIfAborted()
    if (!this.link.mayDial(from.index, toIndex)) throw new Error(`no packet of ${from.peer} reaches ${to}`)
    if (target !== undefined && this.#listening.get(to) !== target) throw new Error(`nobody listens at ${to} any more`)
    const end = this.#open(`${id}>`, from, 'outbound', { peer: to, index: toIndex, id: `${id}<` })
    try {
      if (target === undefined) await this.bridge?.connect(id, { peer: from.peer.toString(), index: from.index }, to)
      else this.accept(id, { peer: from.peer.toString(), index: from.index }, to)
      return await options.upgrader.upgradeOutbound(end, { ...this.#upgradeOptions(end, to), signal: options.signal })
    } catch (error) {
      end.abort(error instanceof Error ? error : new Error(String(error)))
      throw error
    }
  }

  /** A node of this thread is called. @throws Error where nobody listens there */
  accept(id: string, from: { peer: string; index: number }, to: string): void {
    const target = this.#listening.get(to)
    if (target === undefined) throw new Error(`nobody listens at ${to}`)
    const end = this.#open(`${id}<`, target, 'inbound', { ...from, id: `${id}>` })
    target.upgrader
      .upgradeInbound(end, { ...this.#upgradeOptions(end, from.peer), signal: target.signal })
      .catch((error: unknown) => end.abort(error instanceof Error ? error : new Error(String(error))))
  }

  /** A caller without a node behind it: what it sends arrives, what the node answers is lost. @throws Error where nobody listens there */
  call(stranger: string, to: string): { send(note: Note): void } {
    const id = `${this.#thread}:${this.#connections++}`
    this.accept(id, { peer: stranger, index: -1 }, to)
    return { send: (note) => this.#post.deliver(0, () => this.receive(`${id}<`, note)) }
  }

  /** A note for an end that lives in this thread. */
  receive(endId: string, note: Note): void {
    this.#ends.get(endId)?.connection.receive(note)
  }

  speaks(peer: string, protocol: string): boolean {
    return this.#listening.get(peer)?.speaks(protocol) === true
  }

  #upgradeOptions(end: DirectConnection, remote: string) {
    return {
      skipEncryption: true as const,
      skipProtection: true,
      remotePeer: peerIdFromString(remote),
      muxerFactory: { protocol: 'direct', createStreamMuxer: () => end.muxer }
    }
  }

  #open(
    id: string,
    own: Listening,
    direction: 'inbound' | 'outbound',
    other: { peer: string; index: number; id: string }
  ): DirectConnection {
    // who is called sees an address of the caller's that is of this connection alone, like a port of the moment: two nodes that call each other at once would
    // else each take their own call for a second one to the same address, give it up, and be without any
    const place = direction === 'inbound' ? `${other.peer}.${this.#ports++}` : other.peer
    const end = new DirectConnection(
      { remoteAddr: memoryAddr(place, other.peer), direction, log: own.logger.forComponent('sim:direct') },
      this.#wire(id, own.index, other)
    )
    this.#ends.set(id, { connection: end })
    return end
  }

  #wire(id: string, from: number, other: { peer: string; index: number; id: string }): Wire {
    const { link } = this
    const instant = link.isInstant
    let arrivesMs = 0
    const underWay: Note[] = []
    const unlisten = link.onPartition(() => {
      if (!link.reaches(from, other.index)) this.#ends.get(id)?.connection.abort(new Error('the network fell apart'))
    })
    const carry = (note: Note) => {
      const bytes = note.kind === 'stream' && note.note.kind === 'data' ? note.note.bytes.length + NOTE_BYTES : NOTE_BYTES
      this.carried.notes++
      this.carried.bytes += bytes
      if (!link.reaches(from, other.index)) return
      // a timer has whole milliseconds, so of two the later set may fire first: each fires for the oldest note under way
      underWay.push(note)
      const deliver = () => {
        const oldest = underWay.shift() as Note
        if (this.bridge !== undefined && this.bridge.indexOf(other.peer) !== undefined) this.bridge.send(other.id, other.peer, oldest)
        else this.receive(other.id, oldest)
      }
      if (instant) return this.#post.deliver(0, deliver)
      const nowMs = performance.now()
      // what was sent later arrives later
      arrivesMs = Math.max(arrivesMs, nowMs + link.delayMs(from, other.index, bytes))
      this.#post.deliver(Math.max(1, arrivesMs - nowMs), deliver)
    }
    return {
      send: carry,
      opening: async (protocol) => {
        const target = this.#listening.get(other.peer)
        const speaks = target?.speaks(protocol) ?? (await this.bridge?.speaks(other.peer, protocol)) ?? true
        if (!instant) {
          const ms = link.delayMs(from, other.index, NOTE_BYTES) + link.delayMs(other.index, from, NOTE_BYTES)
          await new Promise<void>((resolve) => this.#post.deliver(ms, resolve))
        }
        if (speaks) return
        const error = new Error(`the peer does not speak ${protocol}`)
        error.name = 'UnsupportedProtocolError'
        throw error
      },
      end: () => {
        unlisten()
        this.#ends.delete(id)
      }
    }
  }
}

/** Made of its parts: read from text, each part would be a chain of its single characters, and of each connection stay one. */
function memoryAddr(place: string, peer: string): Multiaddr {
  return multiaddr([
    { code: CODE_MEMORY, name: 'memory', value: place },
    { code: CODE_P2P, name: 'p2p', value: peer }
  ])
}
