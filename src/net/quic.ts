import type {
  Connection,
  Listener,
  MultiaddrConnection,
  Stream,
  StreamMuxer,
  StreamMuxerEvents,
  StreamMuxerFactory,
  StreamMuxerStatus,
  Transport,
  Upgrader,
  UpgraderWithoutEncryptionOptions
} from '@libp2p/interface'
import { TypedEventEmitter } from '@libp2p/interface'
import { AbstractStream, type AbstractStreamInit, type SendResult } from '@libp2p/utils'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import type { Uint8ArrayList } from 'uint8arraylist'
import type { Clock } from '../platform/clock.ts'
import { machineAddresses } from '../platform/interfaces.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import { quicAnswers } from './quic-probe.ts'
import { QuicWatch } from './quic-watch.ts'
import { TurnShare } from './turn-share.ts'

/**
 * Bytes asked of the native stream at once. One call costs more than the bytes it brings, so small reads bound the throughput; but each allocates
 * what it asks for, also for a stream that says nothing. So a stream begins small, grows while reads come back full and shrinks when they do not.
 */
const READ_BYTES_MAX = 65_536
const READ_BYTES_MIN = 4_096

/**
 * Inbound streams that are taken in one turn of the event loop, over all connections. Each costs some tenths of a millisecond until its protocol
 * is known: who opens thousands at once would have the turn for seconds. What waits, waits inside QUIC, where the peer's credit ends.
 */
const STREAMS_PER_TURN = 2

/** What the native QUIC connection and stream offer to a muxer. */
interface NativeStream {
  id(): string
  read(bytesMax: number): Promise<Uint8Array | null | undefined>
  write(bytes: Uint8Array): Promise<void>
  finishWrite(): Promise<void>
  resetWrite(): Promise<void>
  stopRead(): Promise<void>
}

interface NativeConnection {
  id(): string
  outboundStream(): Promise<NativeStream>
  inboundStream(): Promise<NativeStream>
}

/** So long a listener that is given up may take to let go of its socket. */
const RELEASE_MS = 2_000

type LogSource = { forComponent(name: string): AbstractStreamInit['log'] }

/**
 * Gives libp2p's QUIC transport our own muxer over its native connections. The packaged one reads 4 KiB a call, goes on reading while a
 * stream is paused, and tells a reset as a clean end; ours reads up to 64 KiB, leaves unread bytes to QUIC's flow control, and tells both apart.
 * Its listeners are watched, where `watchers` says by what.
 */
export function withOwnMuxer(
  transport: Transport,
  watchers?: { clock: Clock; random: Random; logger: Logger; told: (watch: QuicWatch) => void }
): Transport {
  const dial = transport.dial.bind(transport)
  const createListener = transport.createListener.bind(transport)
  const turns = new TurnShare(STREAMS_PER_TURN)
  transport.dial = (ma, options) => dial(ma, { ...options, upgrader: withMuxer(options.upgrader, turns) })
  const make = (options: Parameters<Transport['createListener']>[0]) =>
    withPresentAddresses(createListener({ ...options, upgrader: withMuxer(options.upgrader, turns) }))
  transport.createListener = make
  if (watchers !== undefined) {
    const watch = new QuicWatch(watchers, () => withNewClients(transport))
    watchers.told(watch)
    transport.createListener = (options) => watched(make(options), watch, watchers)
  }
  return transport
}

/** The packaged transport dials from sockets of its own, which it opens at its start. */
async function withNewClients(transport: Transport): Promise<void> {
  const { stop, start } = transport as Transport & { stop?(): Promise<void>; start?(): Promise<void> }
  await stop?.call(transport)
  await start?.call(transport)
}

/** What the packaged listener knows of itself while it listens. */
interface ListeningState {
  status: string
  listenAddr: Multiaddr
  listener: { abort(): Promise<void> | void }
  controller: AbortController
  connections: Set<{ abort(error: Error): void }>
}

/** A native endpoint whose socket is dead may never say that it has ended. */
async function letGo(native: ListeningState['listener'], clock: Clock): Promise<boolean> {
  const late = Promise.withResolvers<boolean>()
  const cancel = clock.after(RELEASE_MS, () => late.resolve(false))
  const ended = Promise.resolve(native.abort()).then(() => true)
  return await Promise.race([ended, late.promise]).finally(cancel)
}

function watched(listener: Listener, watch: QuicWatch, components: { clock: Clock; random: Random }): Listener {
  const { listen, close } = { listen: listener.listen.bind(listener), close: listener.close.bind(listener) }
  const stateOf = () => (listener as unknown as { state: ListeningState }).state
  let unwatch: () => void = () => {}
  listener.listen = async (addr) => {
    await listen(addr)
    const { listenAddr } = stateOf()
    const [ip, udp] = listenAddr.getComponents()
    const host = ip?.value === '0.0.0.0' ? '127.0.0.1' : ip?.value === '::' ? '::1' : (ip?.value ?? '')
    unwatch = watch.watch({
      address: listenAddr.toString(),
      answers: (patienceMs) => quicAnswers(components, { host, port: Number(udp?.value) }, patienceMs),
      bindAnew: async () => {
        const before = stateOf()
        // as its own close does, but for the event by which libp2p would forget the listener
        before.controller.abort()
        for (const connection of [...before.connections]) connection.abort(new Error('the socket of QUIC is bound anew'))
        before.connections.clear()
        const isFree = await letGo(before.listener, components.clock)
        try {
          await listen(listenAddr)
          return 'bound'
        } catch (error) {
          if (isFree) throw error
          return 'stuck'
        }
      }
    })
  }
  listener.close = async () => {
    unwatch()
    await close()
  }
  return listener
}

/** The packaged listener on all interfaces tells the addresses that this machine had when the process began; ours tells those that it has. */
function withPresentAddresses(listener: Listener): Listener {
  const { listen, getAddrs } = { listen: listener.listen.bind(listener), getAddrs: listener.getAddrs.bind(listener) }
  let family: 'IPv4' | 'IPv6' | undefined
  listener.listen = async (addr) => {
    const ip = addr.getComponents()[0]?.value
    family = ip === '0.0.0.0' ? 'IPv4' : ip === '::' ? 'IPv6' : undefined
    await listen(addr)
  }
  listener.getAddrs = () => {
    const port = (listener as unknown as { state: { listenAddr?: Multiaddr } }).state.listenAddr
      ?.getComponents()
      .find(({ name }) => name === 'udp')?.value
    if (family === undefined || port === undefined) return getAddrs()
    const protocol = family === 'IPv4' ? 'ip4' : 'ip6'
    return machineAddresses().flatMap((one) =>
      one.family === family ? [multiaddr(`/${protocol}/${one.address}/udp/${port}/quic-v1`)] : []
    )
  }
  return listener
}

function withMuxer(upgrader: Upgrader, turns: TurnShare): Upgrader {
  return {
    upgradeOutbound: (maConn: MultiaddrConnection, options: UpgraderWithoutEncryptionOptions): Promise<Connection> =>
      upgrader.upgradeOutbound(maConn, replaceMuxer(options, turns)),
    upgradeInbound: (maConn: MultiaddrConnection, options: UpgraderWithoutEncryptionOptions): Promise<void> =>
      upgrader.upgradeInbound(maConn, replaceMuxer(options, turns)),
    createInboundAbortSignal: (signal) => upgrader.createInboundAbortSignal(signal),
    getStreamMuxers: () => upgrader.getStreamMuxers(),
    getConnectionEncrypters: () => upgrader.getConnectionEncrypters()
  }
}

function replaceMuxer(options: UpgraderWithoutEncryptionOptions, turns: TurnShare): UpgraderWithoutEncryptionOptions {
  const init = (options.muxerFactory as (StreamMuxerFactory & { init?: { connection: NativeConnection; logger: LogSource } }) | undefined)
    ?.init
  if (init === undefined) return options
  return {
    ...options,
    muxerFactory: {
      protocol: 'quic',
      createStreamMuxer: (maConn) => new QuicMuxer(init.connection, init.logger, maConn as MultiaddrConnection, turns)
    }
  }
}

class QuicMuxer extends TypedEventEmitter<StreamMuxerEvents> implements StreamMuxer {
  readonly protocol = 'quic'
  streams: Stream[] = []
  status: StreamMuxerStatus = 'open'
  readonly #connection: NativeConnection
  readonly #logger: LogSource
  readonly #turns: TurnShare

  constructor(connection: NativeConnection, logger: LogSource, maConn: MultiaddrConnection, turns: TurnShare) {
    super()
    this.#connection = connection
    this.#logger = logger
    this.#turns = turns
    maConn.addEventListener('close', () => this.abort(new Error('the connection closed')), { once: true })
    void this.#accept()
  }

  async #accept(): Promise<void> {
    while (this.status === 'open') {
      let native: NativeStream
      try {
        native = await this.#connection.inboundStream()
      } catch {
        return // the connection is gone; its own close event ends the streams
      }
      await this.#turns.enter()
      if (this.status !== 'open') return discard(native)
      this.safeDispatchEvent('stream', { detail: this.#adopt(native, 'inbound') })
    }
  }

  /** Waits while the peer's limit of concurrent streams is reached, until the signal fires. */
  async createStream(options: { signal?: AbortSignal } = {}): Promise<Stream> {
    const { signal } = options
    signal?.throwIfAborted()
    const opening = this.#connection.outboundStream()
    const native = await new Promise<NativeStream>((resolve, reject) => {
      const aborted = () => reject(signal?.reason)
      signal?.addEventListener('abort', aborted, { once: true })
      opening.then(resolve, reject).finally(() => signal?.removeEventListener('abort', aborted))
    }).catch((error: unknown) => {
      opening.then(discard, () => {})
      throw error
    })
    if (this.status !== 'open') {
      discard(native)
      throw new Error(`the connection is ${this.status}`)
    }
    return this.#adopt(native, 'outbound')
  }

  #adopt(native: NativeStream, direction: 'inbound' | 'outbound'): Stream {
    const stream = new QuicStream(native, { id: native.id(), direction, log: this.#logger.forComponent(`libp2p:quic:stream:${direction}`) })
    this.streams.push(stream)
    stream.addEventListener(
      'close',
      () => {
        const at = this.streams.indexOf(stream)
        if (at !== -1) this.streams.splice(at, 1)
      },
      { once: true }
    )
    return stream
  }

  async close(options?: { signal?: AbortSignal }): Promise<void> {
    if (this.status !== 'open') return
    this.status = 'closing'
    await Promise.allSettled(this.streams.map((stream) => stream.close(options)))
    this.#end(new Error('the connection closes'))
  }

  abort(error: Error): void {
    if (this.status !== 'closed') this.#end(error)
  }

  #end(error: Error): void {
    this.status = 'closed'
    for (const stream of [...this.streams]) stream.abort(error)
    this.streams = []
  }
}

class QuicStream extends AbstractStream {
  readonly #native: NativeStream
  #resume: (() => void) | undefined

  constructor(native: NativeStream, init: AbstractStreamInit) {
    super(init)
    this.#native = native
    void this.#read()
  }

  override sendData(data: Uint8ArrayList): SendResult {
    this.#native.write(data.subarray()).then(
      () => this.safeDispatchEvent('drain'),
      () => this.#writeRefused()
    )
    return { sentBytes: data.byteLength, canSendMore: false }
  }

  /** The peer reads no more (or is gone): what it has sent stays readable. */
  #writeRefused(): void {
    if (this.status !== 'open' && this.status !== 'closing') return
    this.onRemoteCloseRead()
    this.writeStatus = 'closed'
    this.safeDispatchEvent('drain')
    if (this.remoteWriteStatus === 'closed') this.onTransportClosed()
  }

  override sendReset(): void {
    this.#resume?.()
    discard(this.#native)
  }

  override async sendCloseWrite(): Promise<void> {
    if (this.remoteReadStatus !== 'closed') await this.#native.finishWrite()
  }

  override async sendCloseRead(): Promise<void> {
    this.#resume?.()
    void this.#native.stopRead().catch(() => {})
  }

  override sendPause(): void {
    // the read loop stops by itself, QUIC's flow control does the rest
  }

  override sendResume(): void {
    if (this.readStatus !== 'paused') this.#resume?.()
  }

  protected override dispatchReadBuffer(): void {
    super.dispatchReadBuffer()
    if (!this.#isFull()) this.#resume?.()
  }

  /** Nobody wants more, or nobody listens yet. */
  #isFull(): boolean {
    return this.readStatus === 'paused' || this.readBuffer.byteLength >= READ_BYTES_MAX
  }

  async #read(): Promise<void> {
    let bytesMax = READ_BYTES_MIN
    try {
      for (;;) {
        while (this.#isFull() && this.status !== 'aborted') {
          await new Promise<void>((resolve) => {
            this.#resume = resolve
          })
          this.#resume = undefined
        }
        const chunk = await this.#native.read(bytesMax)
        if (chunk === null || chunk === undefined) return this.onRemoteCloseWrite()
        if (chunk.length === bytesMax) bytesMax = Math.min(READ_BYTES_MAX, bytesMax * 4)
        else if (chunk.length < bytesMax / 4) bytesMax = Math.max(READ_BYTES_MIN, bytesMax / 4)
        this.onData(chunk)
      }
    } catch {
      if (this.readStatus === 'closing' || this.readStatus === 'closed') this.onRemoteCloseWrite()
      else if (this.status === 'open' || this.status === 'closing') {
        void this.#native.resetWrite().catch(() => {})
        this.onRemoteReset()
      }
    }
  }
}

function discard(native: NativeStream): void {
  void native.resetWrite().catch(() => {})
  void native.stopRead().catch(() => {})
}
