import { ProtocolError } from '../../protocol/errors.ts'
import type { ChannelHead } from '../../protocol/session/chain.ts'
import { cookiePairHex } from '../../protocol/session/cookie.ts'
import { type Established, wipeEstablished } from '../../protocol/session/established.ts'
import { FLAG, NEGOTIABLE_FLAGS } from '../../protocol/session/flags.ts'
import { encodeSfc } from '../../protocol/session/sfc.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import type { PeerAddress } from '../net/host.ts'
import { Deadline } from './deadline.ts'
import type { DurableSession } from './durable-session.ts'
import { LiveSession } from './live-session.ts'
import type { ManagerState } from './manager-state.ts'
import type { SessionRecord } from './session-record.ts'
import type { SessionShelf } from './session-shelf.ts'
import { PSS_PROTOCOL } from './settings.ts'

const OPEN_STREAM_MS = 10_000
const NO_HEADS: ReadonlyMap<number, ChannelHead> = new Map()

export interface ExchangeStart {
  /** when INIT was sent or received, monotonic */
  startedMs: number
  roundTrips: number
}

/** Puts what an exchange established to work: a new session, or the next epoch of one. */
export class Epochs {
  readonly #m: ManagerState
  readonly #shelf: SessionShelf
  readonly #onEnd: (epoch: LiveSession) => void

  constructor(state: ManagerState, shelf: SessionShelf, onEnd: (epoch: LiveSession) => void) {
    this.#m = state
    this.#shelf = shelf
    this.#onEnd = onEnd
  }

  newSession(local: LocalAgent, established: Established, address: PeerAddress): DurableSession {
    const { keys, role, sid, localEid, remoteEid, flags, sfc } = established
    const [mine, theirs] = role === 'initiator' ? [keys.i2r, keys.r2i] : [keys.r2i, keys.i2r]
    const nowMs = this.#m.components.clock.nowMs()
    const record: SessionRecord = {
      sid: sid.slice(),
      local: localEid,
      remote: remoteEid,
      direction: role === 'initiator' ? 0 : 1,
      flags: flags & NEGOTIABLE_FLAGS & ~FLAG.RESUME,
      sfc: sfc === undefined ? undefined : encodeSfc(sfc),
      openedAtMs: nowMs,
      activeAtMs: nowMs,
      address,
      tx: { seq: 0n, hash: mine.chain.slice(), heads: NO_HEADS },
      rx: { seq: 0n, hash: theirs.chain.slice(), heads: NO_HEADS }
    }
    const pair = this.#m.eses.create(record.sid, keys.export, { own: localEid, peer: remoteEid })
    return this.#shelf.make(local, record, pair, undefined, established)
  }

  /** The session goes on over this stream; the caller starts the epoch. */
  begin(session: DurableSession, established: Established, stream: ByteStream, start: ExchangeStart): LiveSession {
    const { crypto, clock } = this.#m.components
    const { times } = this.#m.init
    const { peer } = stream.connection
    const epoch = new LiveSession({
      crypto,
      clock,
      logger: this.#m.log,
      local: session.local,
      signer: this.#m.own.signer(established.localEid) ?? session.local.signer,
      established,
      stream,
      ...start,
      carried: () => session.carried(),
      owner: session,
      contract: session.contract,
      frames: this.#m.largeFrames.of(peer),
      openStream: () => this.#openStream(peer),
      ...(times === undefined ? {} : { times })
    })
    session.begin(epoch)
    const name = cookiePairHex(epoch.cookies)
    this.#m.byCookies.set(name, epoch)
    void epoch.closed.then(() => {
      this.#m.byCookies.delete(name)
      this.#onEnd(epoch)
    })
    return epoch
  }

  async #openStream(peer: string): Promise<ByteStream> {
    const { clock, host } = this.#m.components
    const deadline = new Deadline(clock, this.#m.stopping.signal)
    deadline.set(clock.monotonicMs() + OPEN_STREAM_MS, new ProtocolError('TIMEOUT', 'no further stream within 10 s'))
    try {
      return await host.openStream({ peer, addrs: [] }, PSS_PROTOCOL, { signal: deadline.signal })
    } finally {
      deadline.dispose()
    }
  }
}

/** An exchange that nobody takes over. */
export function discard(established: Established, stream: ByteStream): void {
  wipeEstablished(established)
  void stream.close()
}
