import { publicKeyFromProtobuf, publicKeyToProtobuf } from '@libp2p/crypto/keys'
import { type Identify, identify } from '@libp2p/identify'
import type { Address, Connection, IdentifyResult, PeerId, PeerStore, PrivateKey, Stream } from '@libp2p/interface'
import type { Multiaddr } from '@multiformats/multiaddr'
import { concat, equals, fromUtf8, utf8 } from '../../protocol/bytes.ts'
import type { Clock } from '../platform/clock.ts'
import { allowManyListeners } from '../platform/many-listeners.ts'
import { delimited, FieldWriter, fieldsOf } from './protobuf.ts'
import { sharedAddr, sharedAddrOf } from './shared-values.ts'
import { openAddrs, type SignedAddrs, sealAddrs } from './signed-peer-record.ts'
import { collect } from './stream-bytes.ts'

export const IDENTIFY_PROTOCOL = '/ipfs/id/1.0.0'
const PROTOCOL_VERSION = 'ipfs/0.1.0'
/** Who a peer is, is asked once a connection: given up on, a peer that is slow for a moment would stay without a place in the table for good. */
const TIMEOUT_MS = 30_000
/** As libp2p: one message, and all of one stream */
const MESSAGE_BYTES_MAX = 8_192
const STREAM_BYTES_MAX = 10 * (MESSAGE_BYTES_MAX + 2)
/** Taken of one peer */
const ADDRS_MAX = 64
const PROTOCOLS_MAX = 64
/** A longer name is passed over: none is in use, and all that 10,000 peers say of themselves is kept. */
const PROTOCOL_BYTES_MAX = 128
const VERSION_CHARS_MAX = 128

export interface IdentifyComponents {
  peerId: PeerId
  privateKey: PrivateKey
  peerStore: PeerStore
  addressManager: { getAddresses(): Multiaddr[] }
  nodeInfo: { userAgent: string }
  events: { safeDispatchEvent(name: 'peer:identify', init: { detail: IdentifyResult }): boolean }
}

export interface Told {
  publicKey?: Uint8Array
  listenAddrs: Uint8Array[]
  protocols: string[]
  observedAddr?: Uint8Array
  agentVersion?: string
  protocolVersion?: string
  signed?: Uint8Array
}

/** The parts of libp2p's service that its interface does not name */
interface Service extends Identify {
  handleProtocol: (stream: Stream, connection: Connection) => Promise<void>
  maybeAddObservedAddress(addr: Uint8Array | undefined): void
}

/**
 * libp2p's identify, message for message, with the work that each connection costs done once: our answer is encoded and signed when our addresses or
 * protocols change, not for each peer that asks; a record that was verified is not verified again; what a peer says is noted in one step.
 */
export class LeanIdentify {
  readonly #c: IdentifyComponents
  readonly #clock: Clock
  /** no more than whether: the answers of all connections would be kept with them */
  readonly #underWay = new WeakMap<Connection, Promise<void>>()
  readonly #service: Service
  #seq = 0
  #answer: { of: string; bytes: Uint8Array } | undefined

  constructor(components: IdentifyComponents, clock: Clock) {
    this.#c = components
    this.#clock = clock
    this.#service = identify({ timeout: TIMEOUT_MS })(components as never) as unknown as Service
    // before it starts, which is when it registers its handler
    this.#service.handleProtocol = (stream, connection) => this.#tell(stream, connection)
    this.#service.identify = (connection, options = {}) => this.#identify(connection, options.signal)
  }

  /** What libp2p starts and stops. */
  get service(): Identify {
    return this.#service
  }

  /** Resolves once the peer has said who it is; undefined for a connection where nobody asked. */
  identified(connection: Connection): Promise<void> | undefined {
    return this.#underWay.get(connection)
  }

  #identify(connection: Connection, signal: AbortSignal | undefined): Promise<IdentifyResult> {
    const asking = this.#ask(connection, signal)
    const done = asking.then(() => {})
    this.#underWay.set(connection, done)
    done.catch(() => {})
    return asking
  }

  async #ask(connection: Connection, parent: AbortSignal | undefined): Promise<IdentifyResult> {
    const signal = patience(parent)
    let stream: Stream | undefined
    try {
      stream = await connection.newStream(IDENTIFY_PROTOCOL, { signal, runOnLimitedConnection: true })
      const told = toldIn(await collect(stream, { bytesMax: STREAM_BYTES_MAX, signal }))
      await stream.close({ signal })
      return await this.#note(connection, told)
    } catch (error) {
      stream?.abort(error instanceof Error ? error : new Error(String(error)))
      throw error
    }
  }

  async #note(connection: Connection, told: Told): Promise<IdentifyResult> {
    const { peerStore, peerId, events } = this.#c
    const peer = connection.remotePeer
    if (told.publicKey === undefined) throw new Error('the peer did not say its key')
    const publicKey = isKeyOf(peer, told.publicKey) ? peer.publicKey : publicKeyFromProtobuf(told.publicKey.slice())
    if (publicKey === undefined || !peer.equals(publicKey.toMultihash().bytes)) throw new Error('the key that the peer says is of another')
    if (peer.equals(peerId)) throw new Error('the peer says that it is us')
    this.#service.maybeAddObservedAddress(told.observedAddr)
    const known = await peerStore.get(peer).catch(() => undefined)
    const signed = told.signed === undefined ? undefined : await this.#newer(peer, told.signed, known?.peerRecordEnvelope)
    const listenAddrs = told.listenAddrs.flatMap(readable)
    const addresses: Address[] | undefined =
      signed !== undefined
        ? signed.addrs.addrs.map((addr) => ({ multiaddr: addr, isCertified: true }))
        : told.listenAddrs.length > 0
          ? listenAddrs.map((addr) => ({ multiaddr: addr, isCertified: false }))
          : undefined
    const metadata = new Map(known?.metadata)
    if (told.agentVersion !== undefined) metadata.set('AgentVersion', utf8(told.agentVersion))
    if (told.protocolVersion !== undefined) metadata.set('ProtocolVersion', utf8(told.protocolVersion))
    await peerStore.patch(peer, {
      metadata,
      ...(peer.type === 'RSA' ? { publicKey } : {}),
      ...(addresses === undefined ? {} : { addresses }),
      ...(told.protocols.length === 0 ? {} : { protocols: told.protocols }),
      ...(signed === undefined ? {} : { peerRecordEnvelope: signed.envelope })
    })
    const observed = told.observedAddr === undefined ? [] : readable(told.observedAddr)
    const result: IdentifyResult = {
      peerId: peer,
      listenAddrs,
      protocols: told.protocols,
      publicKey: told.publicKey,
      connection,
      ...(told.protocolVersion === undefined ? {} : { protocolVersion: told.protocolVersion }),
      ...(told.agentVersion === undefined ? {} : { agentVersion: told.agentVersion }),
      ...(observed[0] === undefined ? {} : { observedAddr: observed[0] }),
      ...(signed === undefined ? {} : { signedPeerRecord: { seq: signed.addrs.seq, addresses: [...signed.addrs.addrs] } })
    }
    events.safeDispatchEvent('peer:identify', { detail: result })
    return result
  }

  /** The record told, or the one known where that is not older. */
  async #newer(peer: PeerId, told: Uint8Array, known: Uint8Array | undefined): Promise<{ addrs: SignedAddrs; envelope: Uint8Array }> {
    const addrs = await openAddrs(told)
    if (!peer.equals(addrs.peer)) throw new Error('the peer says the addresses of another')
    if (known !== undefined && !equals(known, told)) {
      const before = await openAddrs(known)
      if (before.seq >= addrs.seq) return { addrs: before, envelope: known }
    }
    return { addrs, envelope: told }
  }

  async #tell(stream: Stream, connection: Connection): Promise<void> {
    const signal = patience()
    const body = await this.#body()
    const { remoteAddr } = connection
    const observed = isObserved(remoteAddr) ? new FieldWriter().bytes(4, remoteAddr.bytes).finish() : new Uint8Array(0)
    const length = new FieldWriter().length(body.length + observed.length).finish()
    if (!stream.send(concat([length, body, observed]))) await stream.onDrain({ signal })
    await stream.close({ signal })
  }

  /** All but the address that we see the peer at. */
  async #body(): Promise<Uint8Array> {
    const { addressManager, peerStore, peerId, privateKey, nodeInfo } = this.#c
    const suffix = `/p2p/${peerId}`
    const addrs = addressManager.getAddresses().map((addr) => {
      const text = addr.toString()
      return text.endsWith(suffix) ? sharedAddr(text.slice(0, -suffix.length)) : addr
    })
    const { protocols } = await peerStore.get(peerId)
    const of = `${addrs.join()} ${protocols.join()}`
    if (this.#answer?.of === of) return this.#answer.bytes
    const answer = new FieldWriter()
      .bytes(5, utf8(PROTOCOL_VERSION))
      .bytes(6, utf8(nodeInfo.userAgent))
      .bytes(1, publicKeyToProtobuf(privateKey.publicKey))
    for (const addr of addrs) answer.bytes(2, addr.bytes)
    for (const protocol of protocols) answer.bytes(3, utf8(protocol))
    // a wall clock that is set back makes no number that peers take for an old one
    this.#seq = Math.max(this.#seq + 1, Math.floor(this.#clock.nowMs()))
    if (addrs.length > 0) answer.bytes(8, await sealAddrs(privateKey, peerId, addrs, BigInt(this.#seq)))
    const bytes = answer.finish()
    this.#answer = { of, bytes }
    return bytes
  }
}

/** By the process's own time, as all else that libp2p bounds of a connection. */
function patience(parent?: AbortSignal): AbortSignal {
  const late = AbortSignal.timeout(TIMEOUT_MS)
  const signal = parent === undefined ? late : AbortSignal.any([late, parent])
  allowManyListeners(signal)
  return signal
}

/** Where a name of memory, or a relay that knows no address of it, says nothing */
function isObserved(addr: Multiaddr): boolean {
  return /^(ip|dns)/.test(addr.getComponents()[0]?.name ?? '')
}

/** An Ed25519 key stands in the PeerId itself. */
function isKeyOf(peer: PeerId, publicKey: Uint8Array): boolean {
  const { code, digest } = peer.toMultihash()
  return code === 0 && equals(digest, publicKey)
}

function readable(addr: Uint8Array): Multiaddr[] {
  try {
    return addr.length === 0 ? [] : [sharedAddrOf(addr)]
  } catch {
    return []
  }
}

/**
 * Several messages count as one; of what may be said once, the last counts.
 * @throws Error where there is none, or one is not well-formed
 */
export function toldIn(bytes: Uint8Array): Told {
  const messages = delimited(bytes, MESSAGE_BYTES_MAX)
  if (messages.length === 0) throw new Error('the peer said nothing of itself')
  const told: Told = { listenAddrs: [], protocols: [] }
  for (const message of messages) {
    for (const { number, bytes: value } of fieldsOf(message)) {
      if (number === 1) told.publicKey = value
      else if (number === 2 && told.listenAddrs.length < ADDRS_MAX) told.listenAddrs.push(value)
      else if (number === 3 && told.protocols.length < PROTOCOLS_MAX && value.length <= PROTOCOL_BYTES_MAX)
        told.protocols.push(fromUtf8(value))
      else if (number === 4) told.observedAddr = value
      else if (number === 5) told.protocolVersion = fromUtf8(value).slice(0, VERSION_CHARS_MAX)
      else if (number === 6) told.agentVersion = fromUtf8(value).slice(0, VERSION_CHARS_MAX)
      else if (number === 8) told.signed = value
    }
  }
  if (new Set(told.protocols).size < told.protocols.length) told.protocols = [...new Set(told.protocols)]
  return told
}
