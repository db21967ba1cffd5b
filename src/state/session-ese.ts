import { equals, wipe } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { ContractMeter, Flow } from '../../protocol/session/contract.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { ESE_VALUE_BYTES_MAX, type EseWrite, encodeEseBatch, eseBatch } from '../../protocol/state/batch.ts'
import { type EseBounds, SNAPSHOT_BATCH_BYTES } from '../../protocol/state/map.ts'
import { ESE_HEAD_BYTES, readEseHead } from '../../protocol/state/seal.ts'
import { decodeViewPart, VIEW_HEAD_BYTES, viewParts } from '../../protocol/state/view.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { Inbound } from '../sessions/session.ts'
import { contractLimit } from '../sessions/session-errors.ts'
import type { WriteOp } from '../store/store.ts'
import { gone, lost, refusedWrite } from './errors.ts'
import { EseSide } from './ese-side.ts'
import type { EseRow, EseSeeds, EseStore } from './ese-store.ts'

/** Every item of both ESEs of a session travels here. */
export const ESE_CHANNEL = 4
/** What one ESE of a session without a contract may hold. */
export const ESE_PLAIN_BYTES_MAX = 4 * 1_048_576
export const ESE_KEYS_MAX = 65_536

const TAG_BYTES = 16
/** Room that a value leaves in the item that carries it, for everything around it. */
const AROUND_VALUE_BYTES = 1_024

export interface SessionEseInit {
  crypto: CryptoProvider
  random: Random
  log: Logger
  sid: Uint8Array
  /** the EIDs that the session goes by now */
  eids: () => { local: Eid; remote: Eid }
  store: EseStore | undefined
  /** `row`: as the disk has it, or will; absent: its key is gone */
  pair: { row: EseRow; seeds: EseSeeds } | undefined
  /** `held`: read back from disk, so that whatever values there were are lost */
  age: 'new' | 'held'
  contract: ContractMeter | undefined
  /** whether an item of so many bytes may be sent. @throws RookeryError */
  check: (kind: number, bytes: number) => void
  send: (kind: number, payload: Uint8Array) => Promise<void>
  commit: (ops: readonly WriteOp[]) => Promise<void>
  /** the peer did what the contract, or the protocol, forbids: the session is closed */
  refuse: (error: ProtocolError) => void
  /** the epoch is given up, so that the next READY asks for a view */
  renew: (why: Error) => void
}

/**
 * The pair of Ephemeral State Endpoints of one session (protocol/README.md §6): ours, which the peer mirrors, and the mirror of the peer's. Values
 * live in memory only; what is under way is sealed, on the wire and in the journal, under keys that go when the EID or the session does.
 */
export class SessionEse {
  readonly own: EseSide
  readonly peer: EseSide
  readonly #init: SessionEseInit
  #row: EseRow | undefined
  readonly #seeds: EseSeeds | undefined
  #used: boolean
  #erasing: Promise<void> = Promise.resolve()
  #held: Record<Flow, number> = { sent: 0, received: 0 }

  constructor(init: SessionEseInit) {
    this.#init = init
    const { crypto, random, sid, contract, pair, age } = init
    this.#row = pair?.row
    this.#seeds = pair?.seeds
    this.#used = pair?.row.used === true
    const bounds = boundsOf(contract)
    const status = age === 'held' && this.#used ? 'lost' : 'current'
    const side = (flow: Flow) => ({ crypto, random, sid, bounds, onBytes: (bytes: number) => this.#count(flow, bytes) })
    this.own = new EseSide(side('sent'), 'own', { eid: pair?.row.own ?? init.eids().local, seed: pair?.seeds.own, status })
    this.peer = new EseSide(side('received'), 'peer', { eid: pair?.row.peer ?? init.eids().remote, seed: pair?.seeds.peer, status })
  }

  /** Told in READY: this side came back without values that it had. */
  get isLost(): boolean {
    return this.own.status === 'lost' || this.peer.status === 'lost'
  }

  /** Letting go of memory would lose something. */
  get holdsValues(): boolean {
    return this.own.holdsValues || this.peer.holdsValues
  }

  /** What a new session's first write on disk takes along. */
  firstOps(): WriteOp[] {
    const { store, sid } = this.#init
    return store === undefined || this.#row === undefined ? [] : [store.put(sid, this.#row)]
  }

  goneOps(): WriteOp[] {
    return this.#init.store === undefined ? [] : [this.#init.store.gone(this.#init.sid)]
  }

  #count(flow: Flow, bytes: number): void {
    const { contract, store } = this.#init
    const more = bytes - this.#held[flow]
    if (flow === 'received') store?.mirrored(more)
    if (more > 0) contract?.hold(flow, 'eseBytes', more)
    else contract?.release(flow, 'eseBytes', -more)
    this.#held[flow] = bytes
  }

  // ── writing ──

  /**
   * Takes effect here at once, as a whole or not at all, and is on its way to the peer. Resolves when the peer has it.
   * @throws RookeryError at once, as a rejection: `ESE_GONE`, `ESE_LOST`, `ESE_REFUSED`, `ESE_LIMIT`, `CONTRACT_LIMIT`, `SESSION_CLOSED`,
   *   `SESSION_QUEUE_FULL`; nothing has changed then
   */
  async write(writes: readonly EseWrite[], options: { clear?: boolean } = {}): Promise<void> {
    await this.#write(writes, options)
  }

  #write(writes: readonly EseWrite[], options: { clear?: boolean }): Promise<void> {
    this.checkScopes()
    if (this.own.status === 'gone') this.own.checkReadable()
    if (!equals(this.own.eid, this.#init.eids().local)) throw gone('rotating')
    if (this.own.status === 'lost' && options.clear !== true) throw lost('own')
    let encoded: Uint8Array
    let prepared: ReturnType<EseSide['replica']['map']['prepare']>
    try {
      const batch = eseBatch(writes, options)
      encoded = encodeEseBatch(batch)
      prepared = this.own.replica.map.prepare(batch)
    } catch (error) {
      throw refusedWrite(error)
    }
    let sent: Promise<void>
    const wasLost = this.own.status === 'lost'
    try {
      this.#init.check(ITEM_KINDS.eseOp, ESE_HEAD_BYTES + encoded.length + TAG_BYTES)
      this.#use([])
      sent = this.#init.send(ITEM_KINDS.eseOp, this.own.sealer('op').seal(encoded))
    } catch (error) {
      prepared.discard()
      this.own.newRun('op') // its number may be used up
      throw error
    } finally {
      wipe(encoded)
    }
    const delta = prepared.commit()
    const { run, n } = this.own.sealer('op')
    this.own.replica.wrote({ run, n })
    if (wasLost) this.own.statusChanged()
    this.own.changed(delta)
    return sent
  }

  /** @throws RookeryError `CONTRACT_LIMIT`: an ESE is written and read only where the contract grants both */
  checkScopes(): void {
    const { contract } = this.#init
    const breach = contract?.scopeRefusal('WRITE_ESE') ?? contract?.scopeRefusal('READ_ESE')
    if (breach !== undefined) throw contractLimit(breach)
  }

  /** From the first value on the disk knows that there may be some to lose. @param position - what is to be in the same batch */
  #use(position: WriteOp[]): Promise<void> | undefined {
    const { store, sid, commit, log } = this.#init
    if (this.#used || store === undefined || this.#row === undefined) return undefined
    this.#used = true
    this.#row = { ...this.#row, used: true }
    const done = commit([store.put(sid, this.#row), ...position])
    done.catch((error: unknown) => {
      this.#used = false
      log.warn({ err: error }, 'that a session has state could not be written down')
    })
    return done
  }

  // ── receiving ──

  /** An item of kind 0x01 or 0x07. Its effect is in memory when this returns, in the order of the calls. */
  async take({ kind, channel, payload, position }: Inbound): Promise<void> {
    try {
      this.#apply(kind, channel, payload)
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      this.#init.refuse(error)
      return
    }
    if (!this.#used) await this.#use(position())
  }

  #apply(kind: number, channel: number, payload: Uint8Array): void {
    const use = kind === ITEM_KINDS.eseOp ? 'op' : 'view'
    const unread = this.#init.contract?.scopeRefusal('READ_ESE')
    if (unread !== undefined) throw unread
    if (channel !== ESE_CHANNEL) throw new ProtocolError('RANGE', `an ESE item on channel ${channel}`, { field: 'channel' })
    const { id } = readEseHead(payload)
    const side = equals(id, this.peer.id) ? this.peer : equals(id, this.own.id) ? this.own : undefined
    if (side === undefined) {
      if (this.#row?.former.some((one) => equals(one, id)) === true) return // of an EID that its writer no longer has
      throw new ProtocolError('CONTRACT', 'an ESE that this session does not designate', { field: 'ese.id' })
    }
    if (side.status === 'gone') return // its key was destroyed here
    if (use === 'op' && side === this.own) throw new ProtocolError('CONTRACT', 'an ESE has one writer', { field: 'ese.id' })
    const { head, plaintext } = side.opener(use).open(payload)
    try {
      if (use === 'op') this.#applyOp(head, plaintext)
      else this.#applyView(side, plaintext)
    } finally {
      wipe(plaintext)
    }
  }

  #applyOp(head: { run: Uint8Array; n: bigint }, plaintext: Uint8Array): void {
    const { peer } = this
    const wasLost = peer.status === 'lost'
    try {
      const delta = peer.replica.apply(head, plaintext)
      if (delta === undefined) return
      if (wasLost) peer.statusChanged()
      peer.changed(delta)
      this.#keepToRoom()
    } catch (error) {
      if (error instanceof ProtocolError && error.code === 'SEQUENCE') {
        // a batch is missing: this side went back to an older disk, or the writer's failed on its way there
        peer.replica.lose()
        peer.statusChanged()
        this.#init.renew(error)
        return
      }
      throw limitOf(error, this.#init.contract)
    }
  }

  /** What peers make this node hold is bounded over all sessions. */
  #keepToRoom(): void {
    const { store, log } = this.#init
    if (store?.isFull !== true || this.peer.status !== 'current') return
    log.warn({ bytes: this.peer.replica.map.bytes }, 'there is no room for the mirror of this session')
    this.peer.replica.lose()
    this.peer.statusChanged()
  }

  #applyView(side: EseSide, plaintext: Uint8Array): void {
    if (side === this.own && side.status !== 'lost') return // it was asked for before it was known again
    let done: 'restored' | 'none' | undefined
    try {
      done = side.replica.addView(decodeViewPart(plaintext))
    } catch (error) {
      throw limitOf(error, this.#init.contract)
    }
    if (done === 'restored') side.statusChanged()
    if (side === this.peer) this.#keepToRoom()
    if (done !== 'none' || side !== this.own) return
    // both sides lost it: it begins anew, and the peer hears of it
    this.#write([], { clear: true }).catch((error: unknown) => this.#init.log.debug({ err: error }, 'an empty state could not be told'))
  }

  /** The peer came back without its values, and all that it had sent before is here: it gets ours, and what we have of its own. */
  sendViews(): void {
    if (this.#row === undefined) return
    for (const side of [this.own, this.peer]) {
      if (side.status === 'gone') continue
      const isWhole = side.status === 'current'
      const sealer = side.sealer('view')
      for (const part of viewParts(isWhole ? side.replica.map : undefined, side.replica.point, this.#partBytes())) {
        const payload = sealer.seal(part)
        wipe(part)
        this.#init.send(ITEM_KINDS.eseView, payload).catch((error: unknown) => {
          this.#init.log.debug({ err: error }, 'a view was not taken')
        })
      }
    }
  }

  #partBytes(): number {
    const block = this.#init.contract?.block
    const most = block === undefined ? SNAPSHOT_BATCH_BYTES : Math.min(block.payloadBytesMax, block.eseBytesMax)
    return Math.max(0, Math.min(SNAPSHOT_BATCH_BYTES, most - ESE_HEAD_BYTES - TAG_BYTES - VIEW_HEAD_BYTES))
  }

  // ── erasure ──

  /** Our agent has other EIDs, oldest first: what it wrote is erased, in memory when this returns, on disk when {@link erased} resolves. */
  rotateOwn(next: readonly Eid[]): void {
    const from = next.findIndex((eid) => equals(eid, this.own.eid)) + 1
    for (const eid of next.slice(from)) {
      const { ops, written } = this.#rotate('own', eid)
      const erasing = Promise.all([this.#erasing, this.#init.commit(ops)]).then(written)
      erasing.catch((error: unknown) => this.#init.log.error({ err: error }, 'the key of erased state could not be replaced on disk'))
      this.#erasing = erasing
    }
  }

  /** @throws what the disk threw: the key of what was erased is still there, and the rotation is to be told again */
  async erased(): Promise<void> {
    const erasing = this.#erasing
    this.#erasing = Promise.resolve()
    await erasing
  }

  /** The peer proved another EID. @returns what is to be written with it, and what follows once it is */
  rotatePeer(next: Eid): { ops: WriteOp[]; written: () => void } {
    return this.#rotate('peer', next)
  }

  #rotate(name: 'own' | 'peer', eid: Eid): { ops: WriteOp[]; written: () => void } {
    const { store, sid } = this.#init
    const before = this.#row
    const side = this[name]
    if (store === undefined || before === undefined || this.#seeds === undefined) return { ops: [], written: () => {} }
    if (equals(side.eid, eid)) return { ops: [store.put(sid, before)], written: () => {} }
    const row = store.rotated(sid, before, this.#seeds, name, eid)
    this.#row = row
    side.renew(eid, this.#seeds[name])
    return { ops: [store.put(sid, row)], written: () => store.destroy(before) }
  }

  /** The session is over: values, seeds and keys are overwritten, in memory and on disk, when this returns. */
  erase(reason: string): void {
    const before = this.#row
    this.dropMemory(reason)
    this.#row = undefined
    if (before !== undefined) this.#init.store?.destroy(before)
  }

  /** The process stops, the session does not: only what is in memory goes. */
  dropMemory(reason: string): void {
    for (const side of [this.own, this.peer]) {
      if (side.status !== 'gone') side.erase(reason)
      side.endWatches()
    }
  }
}

function boundsOf(contract: ContractMeter | undefined): EseBounds {
  if (contract === undefined) return { keysMax: ESE_KEYS_MAX, valueBytesMax: ESE_VALUE_BYTES_MAX, bytesMax: ESE_PLAIN_BYTES_MAX }
  const { eseBytesMax, payloadBytesMax } = contract.block
  const valueBytesMax = Math.max(0, Math.min(ESE_VALUE_BYTES_MAX, payloadBytesMax - AROUND_VALUE_BYTES, eseBytesMax - AROUND_VALUE_BYTES))
  return { keysMax: ESE_KEYS_MAX, valueBytesMax, bytesMax: Math.min(16 * 1_048_576, eseBytesMax) }
}

/** What the map's bounds refuse is, under a contract, its max ESE bytes. */
function limitOf(error: unknown, contract: ContractMeter | undefined): unknown {
  if (!(error instanceof ProtocolError) || error.code !== 'TOO_LARGE' || contract === undefined) return error
  return new ProtocolError('CONTRACT', error.message, { field: 'sfc.eseBytesMax', cause: error })
}
