import { compare, concat, equals, toHex, u64Bytes } from '../bytes.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import type { Evidence } from '../evidence/proof.ts'
import { context } from '../identity/contexts.ts'
import { type Eid, type EidHex, eid, eidHex } from '../identity/eid.ts'
import { ITEM_KINDS } from '../session/items.ts'
import type { EseBatch } from '../state/batch.ts'
import type { EseDelta, EseMap } from '../state/map.ts'
import { KEY_RELAY_MS, RECOVERY_MS, RUNS_SUPERSEDED_KEPT, SNAPSHOT_AFTER_EPOCHS, STRANGERS_HEARD_MAX, VECTOR_DELAY_MS } from './bounds.ts'
import { EpochKeys } from './epoch-keys.ts'
import { encodeGroupKey, type GroupKey } from './group-key.ts'
import { isSigned, type RawGroupOp } from './group-op.ts'
import { encodeGroupVector, encodeGroupWant, type GroupVector, type GroupWant, type RunPoint } from './group-vector.ts'
import { PeerView } from './peer-view.ts'
import { type Lack, Pulls } from './pulls.ts'
import { memberSince, type SignedStatement } from './statement.ts'
import { WriterRun } from './writer-run.ts'

const STATE_CONTEXT = context('group-state')

/** What happened, for the application and for whoever keeps the group. */
export type GroupEvent =
  /** a member's state is another one. `writer` may be this member itself, after its own state came back from the others */
  | { kind: 'changed'; writer: Eid; delta: EseDelta }
  /** nothing of this writer is known any more: it left, or began anew */
  | { kind: 'erased'; writer: Eid }
  | { kind: 'statement'; statement: SignedStatement }
  /** this member is none any more: all it held is overwritten */
  | { kind: 'removed'; statement: SignedStatement }
  /** a writer signed two ops of one place: anyone can check it (protocol/README.md §8) */
  | { kind: 'fork'; evidence: Evidence }
  /** a writer broke the rules, and is followed no further in this run */
  | { kind: 'fault'; writer: Eid; error: ProtocolError }

/** An item for a peer, on the groups' channel: 0x05 and 0x08 are transactions, vectors and requests live messages. */
export interface GroupItem {
  readonly kind: number
  readonly payload: Uint8Array
}

export interface GroupMemberInit {
  crypto: CryptoProvider
  /** signs as the member */
  signer: Signer
  /** the newest statement that is known, and its key if it is held */
  first: GroupKey
  /** random at every process start, never stored: 16 bytes, others at each call */
  newRun: () => Uint8Array
  /** wall clock of the process start, in any case higher than at every earlier start of this member */
  startedMs: number
}

interface Writer {
  readonly eid: Eid
  readonly since: number
  /** the run that counts: the one with the highest start that was seen */
  run: WriterRun | undefined
  /** in hex; at most RUNS_SUPERSEDED_KEPT */
  readonly superseded: Set<string>
  /** a fork or a fault was told */
  told: boolean
}

/**
 * One member of one group (protocol/README.md §6, Groups). It holds a state of every member, its own included, takes what comes over links to others,
 * and says what to send them: pull it with {@link outbox} after every call, and call {@link tick} when {@link wakeAtMs} has come.
 * Times are monotonic milliseconds, but for `startedMs`.
 */
export class GroupMember {
  readonly gid: Uint8Array
  readonly self: Eid
  readonly #crypto: CryptoProvider
  readonly #signer: Signer
  readonly #newRun: () => Uint8Array
  readonly #startedMs: number
  readonly #keys: EpochKeys
  /** by EID; as many as the statement names */
  readonly #writers = new Map<EidHex, Writer>()
  /** by EID; links are the caller's, at most one a member and a few strangers */
  readonly #peers = new Map<EidHex, PeerView>()
  readonly #pulls: Pulls
  #own: WriterRun | undefined
  /** what the others hold of an earlier start stood still since then */
  #recoveringMs: number | undefined
  #owner: Eid
  #planAtMs: number | undefined
  #removed = false
  /** taken by the caller after every call */
  #events: GroupEvent[] = []

  constructor({ crypto, signer, first, newRun, startedMs }: GroupMemberInit) {
    this.#crypto = crypto
    this.#startedMs = startedMs
    this.#signer = signer
    this.#newRun = newRun
    this.self = eid(signer.publicKey.slice())
    this.gid = first.statement.gid
    this.#owner = first.statement.owner
    this.#keys = new EpochKeys(crypto, first.statement)
    this.#keys.take(first)
    this.#pulls = new Pulls(this.self[0] as number)
    if (memberSince(first.statement, this.self) === undefined) throw new TypeError('a group is held by its members')
    this.#setWriters(first.statement)
  }

  get statement(): SignedStatement {
    return this.#keys.newest
  }

  get owner(): Eid {
    return this.#owner
  }

  /** Whether anything is left of it. */
  get isRemoved(): boolean {
    return this.#removed
  }

  /** `no-key`: the trust list is known and its key is not there yet. */
  get canWrite(): 'yes' | 'no-key' | 'removed' {
    return this.#removed ? 'removed' : this.#keys.canSeal ? 'yes' : 'no-key'
  }

  /** Epochs that it can read, for people and metrics. */
  get keysHeld(): number {
    return this.#keys.size
  }

  /** A member's state; undefined where none was seen. Not to be changed. */
  stateOf(member: Eid): EseMap | undefined {
    return this.#writers.get(eidHex(member))?.run?.state
  }

  /** How far each member's run is held and read. */
  vector(): { writer: Eid; run: Uint8Array; n: bigint; applied: bigint; logLength: number }[] {
    return this.#live().map(({ eid: writer, run: { run, n, applied, logLength } }) => ({ writer, run, n, applied, logLength }))
  }

  /** The same at two members that hold the same of every writer: H(context ‖ gid ‖ (writer ‖ run ‖ u64 n ‖ state hash)*), rising by writer. */
  hash(): Uint8Array {
    const parts = this.#live().flatMap(({ eid: writer, run }) => [writer, run.run, u64Bytes(run.applied), run.state.hash()])
    return this.#crypto.sha256(STATE_CONTEXT, this.gid, concat(parts))
  }

  #live(): { eid: Eid; run: WriterRun }[] {
    const live: { eid: Eid; run: WriterRun }[] = []
    for (const { eid: writer, run } of this.#writers.values()) if (run !== undefined && run.n > 0n) live.push({ eid: writer, run })
    return live.sort((a, b) => compare(a.eid, b.eid))
  }

  /** What happened since the last call. */
  takeEvents(): GroupEvent[] {
    const events = this.#events
    this.#events = []
    return events
  }

  // ── links ──

  /** A session with this EID carries items now. @param told - what its READY said of this group's runs */
  linkUp(peer: Eid, nowMs: number, told: readonly RunPoint[] = []): void {
    if (this.#removed || equals(peer, this.self)) return
    const view = new PeerView(peer)
    this.#peers.set(view.hex, view)
    this.#pulls.lost(view.hex)
    if (told.length > 0 && this.#isMember(peer)) view.heard({ epoch: 0, keys: 0, runs: told })
    view.vectorDue(nowMs)
    this.#plan(nowMs)
  }

  linkDown(peer: Eid, nowMs: number): void {
    const hex = eidHex(peer)
    if (!this.#peers.delete(hex)) return
    this.#pulls.lost(hex)
    this.#plan(nowMs)
  }

  get links(): number {
    return this.#peers.size
  }

  /** The owner goes by another EID, as both its keys have signed: statements of that one count from here on. */
  renamed(from: Eid, to: Eid): void {
    if (equals(this.#owner, from)) this.#owner = to
  }

  #isMember(who: Eid): boolean {
    return this.#writers.has(eidHex(who))
  }

  // ── keys and members ──

  /**
   * An item 0x05, whoever sent it, opened.
   * @throws ProtocolError `EID_MISMATCH` where somebody else than the owner signed it
   */
  takeKey(key: GroupKey, nowMs: number): void {
    if (this.#removed) return
    const { statement } = key
    if (!equals(statement.owner, this.#owner)) {
      throw new ProtocolError('EID_MISMATCH', "another than the group's owner signed its statement", { field: 'group.owner' })
    }
    const isIn = memberSince(statement, this.self) !== undefined
    const isNewer = statement.epoch > this.statement.epoch
    if (isIn && isNewer && key.dgk === undefined) return // the key will come; until then the epoch before is the newest one for us
    if (!isIn && !isNewer) return
    const what = this.#keys.take(isIn ? key : { statement, dgk: undefined })
    if (what === 'nothing') return
    if (!isIn) {
      this.#leave()
      return
    }
    if (what === 'newer') {
      this.#setWriters(statement)
      this.#events.push({ kind: 'statement', statement })
      this.#republish()
      this.#tellKey(nowMs)
    }
    this.#pulls.reset()
    for (const writer of this.#writers.values()) this.#catchUp(writer)
    this.#changed(nowMs)
  }

  /** All members but this one are told of the newest key: at once by the owner, by others where the peer still lacks it later. */
  #tellKey(nowMs: number): void {
    const atMs = equals(this.self, this.#owner) ? nowMs : nowMs + KEY_RELAY_MS
    for (const view of this.#peers.values()) this.#offerKeys(view, atMs)
  }

  #offerKeys(view: PeerView, atMs: number): void {
    if (!this.#isMember(view.eid)) {
      if (view.epoch > 0 && view.epoch < this.statement.epoch) view.noticeDue(atMs)
      return
    }
    if (view.hasSpoken) view.keysLacked(this.#keys.lackedBy(view.eid, view), atMs)
  }

  #setWriters({ members }: SignedStatement): void {
    const named = new Map(members.map((one) => [eidHex(one.eid), one]))
    for (const [hex, writer] of this.#writers) {
      if (named.get(hex)?.since === writer.since) continue
      this.#writers.delete(hex)
      if (writer.run !== undefined) {
        writer.run.erase()
        this.#events.push({ kind: 'erased', writer: writer.eid })
      }
      if (equals(writer.eid, this.self)) this.#own = undefined
    }
    for (const [hex, one] of named) {
      if (!this.#writers.has(hex)) {
        this.#writers.set(hex, { eid: one.eid, since: one.since, run: undefined, superseded: new Set(), told: false })
      }
    }
  }

  /** Publishes the own state again for members who are new since it was, and where the log reaches back far. */
  #republish(): void {
    const { epoch, members } = this.statement
    const own = this.#own
    if (own === undefined || own.n === 0n || !this.#keys.canSeal) return
    const isLacked = members.some(({ since, history }) => history === 'snapshot' && since > own.firstEpoch)
    if (!isLacked && own.firstEpoch > epoch - SNAPSHOT_AFTER_EPOCHS && !own.isSnapshotDue) return
    own.snapshot(this.#signer, epoch, this.#sealer(own))
  }

  #leave(): void {
    this.#removed = true
    for (const { run } of this.#writers.values()) run?.erase()
    this.#writers.clear()
    this.#peers.clear()
    this.#keys.wipe()
    this.#own = undefined
    this.#planAtMs = undefined
    this.#events.push({ kind: 'removed', statement: this.statement })
  }

  /** Overwrites all that is held: the member stops. */
  erase(): void {
    for (const { run } of this.#writers.values()) run?.erase()
    this.#writers.clear()
    this.#peers.clear()
    this.#keys.wipe()
    this.#own = undefined
    this.#removed = true
  }

  #sealer({ writer, run }: WriterRun) {
    return (epoch: number) => this.#keys.cipher(epoch, writer, run)
  }

  // ── writing ──

  /**
   * Changes the own state, all of the batch or nothing. The first one begins a run, with what is known of an earlier one.
   * @throws ProtocolError `OUT_OF_ORDER` where {@link canWrite} is not `yes`; those of {@link WriterRun.write}
   */
  write(batch: EseBatch, nowMs: number): EseDelta {
    if (this.canWrite !== 'yes') throw new ProtocolError('OUT_OF_ORDER', `this member cannot write: ${this.canWrite}`, { field: 'group' })
    const { epoch } = this.statement
    const own = this.#own ?? this.#begin()
    const delta = own.write(this.#signer, epoch, this.#sealer(own), batch)
    if (own.isSnapshotDue) own.snapshot(this.#signer, epoch, this.#sealer(own))
    this.#changed(nowMs)
    return delta
  }

  #begin(): WriterRun {
    const writer = this.#writers.get(eidHex(this.self)) as Writer
    const before = writer.run
    const started = Math.max(this.#startedMs, (before?.started ?? 0) + 1)
    const own = WriterRun.own(this.#crypto, { gid: this.gid, writer: this.self, run: this.#newRun(), started })
    own.snapshot(this.#signer, this.statement.epoch, this.#sealer(own), before?.state)
    if (before !== undefined) this.#supersede(writer, before)
    writer.run = own
    this.#own = own
    this.#recoveringMs = undefined
    return own
  }

  /** The own state has come back from the others: it goes on as a run of this start, so that members who are new since can read it. */
  #goOn(nowMs: number): void {
    if (this.#recoveringMs === undefined || nowMs < this.#recoveringMs + RECOVERY_MS) return
    const recovered = this.#own === undefined ? this.#writers.get(eidHex(this.self))?.run : undefined
    this.#recoveringMs = recovered === undefined ? undefined : nowMs
    if (recovered === undefined || !this.#keys.canSeal || recovered.applied < recovered.n) return
    this.#begin()
    this.#changed(nowMs)
  }

  #supersede(writer: Writer, run: WriterRun): void {
    this.#forget(writer, toHex(run.run))
    run.erase()
  }

  #forget(writer: Writer, run: string): void {
    if (writer.superseded.size >= RUNS_SUPERSEDED_KEPT) writer.superseded.delete(writer.superseded.values().next().value as string)
    writer.superseded.add(run)
  }

  // ── ops ──

  /**
   * An item 0x08, read. What is no use is passed over: another's ops, what was had already, what lies beyond a gap.
   * @returns what was found
   */
  takeOp(peer: Eid, op: RawGroupOp, nowMs: number): 'taken' | 'passed-over' {
    const writer = this.#writers.get(eidHex(op.writer))
    if (this.#removed || writer === undefined || op.epoch < writer.since || op.n === 0n) return 'passed-over'
    const name = toHex(op.run)
    if (writer.superseded.has(name) || (writer.run === this.#own && this.#own !== undefined)) return 'passed-over'
    const isSame = writer.run !== undefined && equals(writer.run.run, op.run)
    if (isSame && (writer.run as WriterRun).place(op) === 'held') return 'passed-over'
    if (!isSigned(this.#crypto, op)) return 'passed-over'
    const taken = isSame ? this.#takeNext(peer, writer, op) : this.#takeStart(writer, op)
    if (!taken) return 'passed-over'
    if (equals(op.writer, this.self)) this.#recoveringMs = nowMs
    this.#catchUp(writer)
    this.#changed(nowMs)
    return 'taken'
  }

  #takeNext(peer: Eid, writer: Writer, op: RawGroupOp): boolean {
    const run = writer.run as WriterRun
    const before = run.n
    const outcome = run.take(op, this.#sealer(run))
    if (outcome === 'taken') {
      if (op.n > before + 1n)
        this.#events.push({ kind: 'changed', writer: writer.eid, delta: { cleared: true, keys: [...run.state.keys()] } })
      return true
    }
    if (outcome === 'broken') this.#askFor(peer, run, op.n - 1n)
    if (typeof outcome === 'object') this.#tellFork(writer, outcome.fork, op.head)
    if (outcome === 'refused') this.#tellFault(writer)
    return false
  }

  /** Another run of the writer, or its first: it counts if it started later. */
  #takeStart(writer: Writer, op: RawGroupOp): boolean {
    const cipher = this.#keys.cipher(op.epoch, op.writer, op.run)
    if (cipher === undefined) return false
    let run: WriterRun | undefined
    try {
      run = WriterRun.from(this.#crypto, op, cipher)
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      this.#forget(writer, toHex(op.run))
      this.#events.push({ kind: 'fault', writer: writer.eid, error })
      return false
    }
    if (run === undefined) return false
    const held = writer.run
    if (held !== undefined && !isLater(run, held)) {
      this.#forget(writer, toHex(run.run))
      run.erase()
      return false
    }
    if (held !== undefined) this.#supersede(writer, held)
    writer.run = run
    writer.told = false
    this.#events.push({ kind: 'changed', writer: writer.eid, delta: { cleared: true, keys: [...run.state.keys()] } })
    return true
  }

  #catchUp(writer: Writer): void {
    const { run } = writer
    if (run === undefined || run === this.#own) return
    for (const delta of run.catchUp(this.#sealer(run))) this.#events.push({ kind: 'changed', writer: writer.eid, delta })
    this.#tellFault(writer)
  }

  #tellFault(writer: Writer): void {
    const error = writer.run?.fault
    if (error === undefined || writer.told) return
    writer.told = true
    this.#events.push({ kind: 'fault', writer: writer.eid, error })
  }

  #tellFork(writer: Writer, a: Uint8Array, b: Uint8Array): void {
    if (writer.told) return
    writer.told = true
    this.#events.push({ kind: 'fork', evidence: { target: writer.eid, kind: 'group', a: a.slice(), b: b.slice() } })
  }

  // ── vectors and requests ──

  /** A peer's vector, read. */
  takeVector(peer: Eid, vector: GroupVector, nowMs: number): void {
    const view = this.#peers.get(eidHex(peer))
    if (this.#removed || view === undefined) return
    if (view.heard(this.#keepsRunsOf(view) ? vector : { ...vector, runs: [] }) === 'first') view.vectorDue(nowMs)
    this.#offerKeys(view, equals(this.self, this.#owner) || view.epoch === 0 ? nowMs : nowMs + KEY_RELAY_MS)
    if (!this.#isMember(peer)) {
      view.asksEpoch = vector.epoch > this.statement.epoch
      return
    }
    for (const point of view.runs.values()) this.#compare(view, point)
    this.#plan(nowMs)
  }

  /** A stranger's runs are of use once a newer statement makes it a member. */
  #keepsRunsOf(view: PeerView): boolean {
    if (this.#isMember(view.eid)) return true
    let strangers = 0
    for (const other of this.#peers.values()) if (other !== view && other.runs.size > 0 && !this.#isMember(other.eid)) strangers++
    return strangers < STRANGERS_HEARD_MAX
  }

  /** Two members at one place of a run hold the same, or the writer told two histories. */
  #compare(view: PeerView, { writer, run, n, gn }: RunPoint): void {
    const held = this.#writers.get(eidHex(writer))
    if (held?.run === undefined || held.told || !equals(held.run.run, run)) return
    const entry = held.run.entry(n)
    if (entry !== undefined && !equals(entry.gn, gn)) this.#askFor(view.eid, held.run, n)
  }

  /** One op again, as somebody else holds it. */
  #askFor(peer: Eid, { writer, run }: WriterRun, n: bigint): void {
    const view = this.#peers.get(eidHex(peer))
    if (view === undefined || n === 0n || view.wants.length >= this.#writers.size) return
    view.wants.push({ gid: this.gid, writer, run, from: n, count: 1 })
  }

  /** A peer's request, read: what is held goes out with the next {@link outbox}. */
  takeWant(peer: Eid, { writer, run, from, count }: GroupWant): void {
    const view = this.#peers.get(eidHex(peer))
    const held = this.#writers.get(eidHex(writer))?.run
    if (this.#removed || view === undefined || held === undefined || !equals(held.run, run) || !this.#isMember(peer)) return
    const next = this.#startFor(view, held, from)
    const last = from + BigInt(count) - 1n
    const until = last < held.n ? last : held.n
    if (next !== undefined && next <= held.n) view.answer(toHex(run), next, until < next ? next : until)
  }

  /** The first op of a run that is of use to a peer that lacks what comes from `from` on; undefined: none that it could read. */
  #startFor(view: PeerView, run: WriterRun, from: bigint): bigint | undefined {
    if (from > run.firstN) return from
    const since = this.#writers.get(view.hex)?.since
    return since !== undefined && run.firstEpoch >= since ? run.firstN : undefined
  }

  #changed(nowMs: number): void {
    for (const view of this.#peers.values()) view.vectorDue(nowMs + VECTOR_DELAY_MS)
    this.#plan(nowMs)
  }

  #plan(nowMs: number): void {
    this.#planAtMs = nowMs
  }

  #lacks(): Map<string, Lack> {
    const lacks = new Map<string, { point: RunPoint; have: bigint; from: PeerView[]; isPushed: boolean }>()
    for (const view of this.#peers.values()) {
      if (!this.#isMember(view.eid)) continue
      for (const [hex, point] of view.runs) {
        const writer = this.#writers.get(hex)
        const name = toHex(point.run)
        if (writer === undefined || writer.superseded.has(name) || (writer.run !== undefined && writer.run === this.#own)) continue
        const isSame = writer.run !== undefined && equals(writer.run.run, point.run)
        const have = isSame ? (writer.run as WriterRun).n : 0n
        if (point.n <= have || (isSame && (writer.run as WriterRun).fault !== undefined)) continue
        const lack = lacks.get(name) ?? { point, have, from: [], isPushed: this.#peers.get(hex)?.hasSpoken === true }
        lack.from.push(view)
        lacks.set(name, lack)
      }
    }
    return lacks
  }

  /** Does what has become due. */
  tick(nowMs: number): void {
    if (this.#removed) return
    this.#goOn(nowMs)
    if (this.#planAtMs === undefined || nowMs < this.#planAtMs) return
    const { ask, wakeAtMs } = this.#pulls.plan(this.#lacks(), nowMs)
    this.#planAtMs = wakeAtMs
    for (const { peer, point, from, count } of ask) {
      peer.wants.push({ gid: this.gid, writer: point.writer, run: point.run, from, count })
    }
  }

  /** When {@link tick} and {@link outbox} have something to do though nothing comes; undefined: never. */
  get wakeAtMs(): number | undefined {
    let at = this.#planAtMs
    if (this.#recoveringMs !== undefined) at = Math.min(at ?? Number.POSITIVE_INFINITY, this.#recoveringMs + RECOVERY_MS)
    for (const { wakeAtMs } of this.#peers.values()) if (wakeAtMs !== undefined) at = Math.min(at ?? wakeAtMs, wakeAtMs)
    return at
  }

  /**
   * What is to be sent to a peer now, in this order; it counts as sent. Call it until it gives nothing, at the pace at which the link takes items.
   * @param bytesMax - stops behind the item that reaches it
   */
  outbox(peer: Eid, nowMs: number, { itemsMax, bytesMax }: { itemsMax: number; bytesMax: number }): GroupItem[] {
    const view = this.#peers.get(eidHex(peer))
    const items: GroupItem[] = []
    if (view === undefined || this.#removed) return items
    let bytes = 0
    const add = (kind: number, payload: Uint8Array) => {
      items.push({ kind, payload })
      bytes += payload.length
      return items.length < itemsMax && bytes < bytesMax
    }
    if (!this.#isMember(peer)) {
      if (view.takeNotice(nowMs)) add(ITEM_KINDS.groupKey, encodeGroupKey({ statement: this.statement, dgk: undefined }))
      // it may know a newer statement, in which it is a member: then it has to learn that we lack it, and nothing else
      if (view.asksEpoch) add(ITEM_KINDS.live, this.#encodedVector('epoch'))
      view.becameStranger()
      return items
    }
    for (let epoch = view.takeKey(nowMs); epoch !== undefined; epoch = view.takeKey(nowMs)) {
      const key = this.#keys.get(epoch)
      if (key !== undefined && !add(ITEM_KINDS.groupKey, encodeGroupKey(key))) return items
    }
    if (view.vectorDueAtMs !== undefined && nowMs >= view.vectorDueAtMs) {
      const vector = this.#encodedVector('runs')
      if (view.vectorSent(vector, nowMs) && !add(ITEM_KINDS.live, vector)) return items
    }
    for (let want = view.wants.shift(); want !== undefined; want = view.wants.shift()) {
      if (!add(ITEM_KINDS.live, encodeGroupWant(want))) return items
    }
    this.#outOps(view, add)
    return items
  }

  /** Own ops unasked, others' as they were asked for. */
  #outOps(view: PeerView, add: (kind: number, payload: Uint8Array) => boolean): void {
    const own = this.#own
    if (own !== undefined && view.hasSpoken) {
      let next = this.#startFor(view, own, view.pushedTo(eidHex(this.self), own.run) + 1n)
      for (; next !== undefined && next <= own.n; next++) {
        view.pushed(own.run, next)
        if (!add(ITEM_KINDS.groupOp, (own.entry(next) as RawGroupOp).bytes)) return
      }
    }
    for (const [name, answer] of view.answers) {
      const run = this.#runNamed(name)
      for (; run !== undefined && answer.next <= answer.until; answer.next++) {
        const op = run.entry(answer.next)
        if (op === undefined) {
          if (answer.next > run.n) break
          answer.next = run.firstN - 1n // a snapshot took the place of what was asked for
          if (this.#startFor(view, run, 0n) === undefined) break
          continue
        }
        if (!add(ITEM_KINDS.groupOp, op.bytes)) {
          answer.next++
          return
        }
      }
      view.answered(name)
    }
  }

  #runNamed(name: string): WriterRun | undefined {
    for (const { run } of this.#writers.values()) if (run !== undefined && toHex(run.run) === name) return run
    return undefined
  }

  #encodedVector(form: 'runs' | 'epoch'): Uint8Array {
    const { gid } = this
    return encodeGroupVector({ gid, epoch: this.statement.epoch, keys: this.#keys.bitmap, runs: form === 'runs' ? this.runsHeld() : [] })
  }

  /** How far every run is held: what READY and vectors tell. */
  runsHeld(): RunPoint[] {
    return this.#live().map(({ eid: writer, run: { run, n, gn } }) => ({ writer, run, n, gn }))
  }
}

/** Of two runs of one writer, which counts: the later start, then the higher name. */
function isLater(a: WriterRun, b: WriterRun): boolean {
  return a.started === b.started ? compare(a.run, b.run) > 0 : a.started > b.started
}
