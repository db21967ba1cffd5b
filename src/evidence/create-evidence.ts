import { equals, fromHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Evidence, verifyEvidence } from '../../protocol/evidence/proof.ts'
import { decodeRevocation } from '../../protocol/evidence/revocation.ts'
import { type Eid, type EidHex, eidHex, eid as eidOf, eidToDid } from '../../protocol/identity/eid.ts'
import { openRotation } from '../../protocol/identity/rotation.ts'
import { buildRecord } from '../../protocol/records/envelope.ts'
import type { LocatorRecord } from '../../protocol/records/locator.ts'
import { openPom, POM_TTL_SEC, type PomRecord, pomKey, pomType } from '../../protocol/records/pom.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { SessionPolicy } from '../sessions/settings.ts'
import { PublishBudget } from '../spaces/publish-budget.ts'
import type { RegistryClient } from '../spaces/registry-client.ts'
import type { Store } from '../store/store.ts'
import { Checks } from './checks.ts'
import { Distrusted } from './distrusted.ts'
import type { EvidenceService, Origin, Standing, StandingView, Verdict } from './evidence.ts'
import { Retirements } from './retirements.ts'
import type { StakeLedger } from './stake-ledger.ts'
import { Tickets } from './tickets.ts'
import { type HeldVerdict, VerdictBook, type VerdictBookInit } from './verdict-book.ts'

/** Pieces of evidence that wait to be judged; more are dropped, whoever brought them sees them again. */
export const JUDGING_MAX = 256
/** Tickets that one peer may hand in, and contradictions that this node publishes by itself, a minute. */
const TICKETS_PER_MINUTE = 8
const OWN_SOURCE = 'own'
const LIST_LIMIT_DEFAULT = 1_000

export interface EvidenceComponents {
  store: Store
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
  ledger: StakeLedger
  /** the agents of this node, as they are at the moment of asking; the default one, which signs tickets, first */
  agents: () => readonly LocalAgent[]
  /** EIDs that an identity had before, as rotations showed: their standing is its own (G-73). Absent: none is known */
  predecessors?: (eid: Eid) => readonly Eid[]
}

/** Opens what earlier runs judged. {@link RunningEvidence.begin} starts the escrows and goes to the network. */
export async function createEvidence(components: EvidenceComponents, init: VerdictBookInit = {}): Promise<RunningEvidence> {
  const logger = components.logger.child('evidence')
  const parts = { ...components, logger }
  const agent = (name: EidHex) => components.agents().find((one) => one.eidHex === name)
  return new NodeEvidence({
    ...parts,
    book: await VerdictBook.open(parts, init),
    tickets: await Tickets.open({ ...parts, agent }),
    retirements: await Retirements.open(parts),
    distrusted: await Distrusted.open(parts)
  })
}

export interface RunningEvidence extends EvidenceService {
  begin(registry: RegistryClient): void
  /** what peers can grow, for metrics and tests */
  held(): { verdicts: number; judging: number; checks: number }
}

interface Parts extends EvidenceComponents {
  book: VerdictBook
  tickets: Tickets
  retirements: Retirements
  distrusted: Distrusted
}

class NodeEvidence implements RunningEvidence {
  readonly #c: Parts
  readonly #budget: PublishBudget
  readonly #checks: Checks
  readonly #judging = new Set<Promise<void>>()
  #registry: RegistryClient | undefined
  #stopped = false

  constructor(parts: Parts) {
    this.#c = parts
    this.#budget = new PublishBudget(parts.clock, TICKETS_PER_MINUTE)
    this.#checks = new Checks(parts.clock, async (name) => {
      try {
        await this.check(eidOf(fromHex(name)))
      } catch (error) {
        if (!this.#stopped) parts.logger.debug({ err: error }, 'evidence could not be looked up')
      }
    })
  }

  begin(registry: RegistryClient): void {
    this.#registry = registry
    this.#c.book.begin()
    this.#c.tickets.begin(registry)
    this.#checks.begin()
  }

  held(): { verdicts: number; judging: number; checks: number } {
    return { verdicts: this.#c.book.size, judging: this.#judging.size, checks: this.#checks.waiting }
  }

  // ── the blacklist ──

  standing(eid: Eid): Standing {
    const standings = this.#names(eid).map((name) => this.#c.book.standing(name))
    return standings.find((one) => one === 'slashed') ?? standings.find((one) => one === 'challenged') ?? 'nominal'
  }

  #names(eid: Eid): Eid[] {
    return [eid, ...(this.#c.predecessors?.(eid) ?? [])]
  }

  #refuses(eid: Eid): boolean {
    for (const name of this.#names(eid)) this.#c.book.met(name)
    return this.#isRefused(eid)
  }

  #isRefused(eid: Eid): boolean {
    return this.standing(eid) !== 'nominal' || this.#names(eid).some((name) => this.#c.distrusted.get(name) !== undefined)
  }

  readonly policy: SessionPolicy = ({ remote }) => {
    if (this.#refuses(remote)) return { admit: false, reason: 'policy' }
    this.#checks.ask(eidHex(remote))
    return { admit: true }
  }

  admit(eid: Eid): void {
    if (!this.#refuses(eid)) {
      this.#checks.ask(eidHex(eid))
      return
    }
    const did = eidToDid(eid)
    const standing = this.standing(eid)
    const why = standing === 'nominal' ? `this node distrusts it (${this.#c.distrusted.get(eid)?.reason})` : `it is ${standing}`
    throw new RookeryError('AGENT_REFUSED', `no session with ${did}: ${why}`, {
      kind: 'refused',
      field: 'did',
      value: did,
      remedy: `see \`rookery standing ${did}\` for the evidence`,
      data: { standing }
    })
  }

  refusesJoins(member: Eid): boolean {
    this.#c.book.met(member)
    return this.standing(member) !== 'nominal'
  }

  async distrust(eid: Eid, reason: string): Promise<void> {
    await this.#c.distrusted.add(eid, reason)
  }

  // ── what comes in ──

  async found(evidence: Evidence, options: { firstSeenMs?: number; publish?: 'now' | 'unless-known' } = {}): Promise<Verdict> {
    verifyEvidence(this.#c.crypto, evidence)
    const record = this.#sign(evidence)
    return record === undefined ? 'unsigned' : await this.#act(record, options)
  }

  onCheckpointPair(target: Eid, a: Uint8Array, b: Uint8Array, { firstSeenMs }: { firstSeenMs?: number } = {}): Uint8Array | undefined {
    const evidence: Evidence = { target: copy(target) as Eid, kind: 'checkpoint', a: copy(a), b: copy(b) }
    verifyEvidence(this.#c.crypto, evidence)
    const record = this.#sign(evidence)
    if (record === undefined) return undefined
    this.#later(async () => {
      await this.#act(record, { publish: 'now', ...(firstSeenMs === undefined ? {} : { firstSeenMs }) })
    })
    return record.bytes
  }

  onEquivocation(pair: Evidence): void {
    if (this.standing(pair.target) !== 'nominal') return
    const evidence = { ...pair, target: copy(pair.target) as Eid, a: copy(pair.a), b: copy(pair.b) }
    this.#later(async () => {
      if (this.standing(evidence.target) !== 'nominal') return
      await this.found(evidence, { publish: 'unless-known' })
    })
  }

  onTicket(record: Uint8Array): void {
    const bytes = copy(record)
    this.#later(async () => {
      await this.accept(bytes)
    })
  }

  async onRevocation(payload: Uint8Array, { peer }: { peer: string }): Promise<Verdict> {
    const { pom } = decodeRevocation(payload)
    return await this.accept(copy(pom), { from: peer })
  }

  onMember(member: Eid): void {
    this.#checks.ask(eidHex(member))
  }

  onLocator(record: LocatorRecord): void {
    const { eid, gone } = record.payload
    const nowMs = this.#c.clock.nowMs()
    this.#c.retirements.saw(eid, record.bytes)
    if (gone !== true || this.#c.retirements.get(eid) !== undefined) return
    this.#later(() => this.#c.retirements.note(eidOf(copy(eid)), 'tombstone', nowMs))
  }

  async onRotation(certificate: Uint8Array): Promise<void> {
    const { old } = openRotation(this.#c.crypto, certificate)
    const predecessors = this.#c.predecessors?.(old) ?? []
    await this.#c.retirements.note(eidOf(copy(old)), 'rotation', this.#c.clock.nowMs(), predecessors)
  }

  async accept(record: Uint8Array, { from }: { from?: string } = {}): Promise<Verdict> {
    if (from !== undefined && this.#budget.take([from]) === 'refused') return 'busy'
    const pom = openPom(this.#c.crypto, record, { nowMs: this.#c.clock.nowMs() })
    return await this.#judge(pom, 'told')
  }

  /** Signed by our default agent; undefined where there is none. */
  #sign(evidence: Evidence): PomRecord | undefined {
    const agent = this.#c.agents()[0]
    if (agent === undefined) return undefined
    const ts = Math.floor(this.#c.clock.nowMs() / 1_000)
    const pom = { ...evidence, accuser: agent.eid, ts, exp: ts + POM_TTL_SEC }
    return buildRecord(this.#c.crypto, pomType, pom, agent.signer)
  }

  async #act(pom: PomRecord, options: { firstSeenMs?: number; publish?: 'now' | 'unless-known' }): Promise<Verdict> {
    const verdict = await this.#judge(pom, 'own', options.firstSeenMs)
    const { target } = pom.payload
    if (verdict === 'rebutted' || verdict === 'full' || this.#isOurs(target)) return verdict
    const publish = options.publish ?? 'now'
    if (publish === 'unless-known' && this.#budget.take([OWN_SOURCE]) === 'refused') return verdict
    await this.#c.tickets.add(pom, publish, () => this.#isKnown(target))
    return verdict
  }

  async #judge(pom: PomRecord, origin: Origin, firstSeenMs = Number.POSITIVE_INFINITY): Promise<Verdict> {
    const { target, a, b, kind } = pom.payload
    if (this.#isOurs(target)) {
      this.#c.logger.error(
        { agent: eidToDid(target), kind },
        'there is proof against an agent of this node: does a copy of it run elsewhere?'
      )
    }
    const { retirements, clock, book } = this.#c
    const firstSeen = Math.min(firstSeenMs, retirements.firstSeenMs(target, [a, b], clock.nowMs()))
    return await book.challenge(pom, { origin, firstSeenMs: firstSeen, rebuttal: retirements.get(target) })
  }

  #isOurs(target: Eid): boolean {
    return this.#c.agents().some((agent) => equals(agent.eid, target))
  }

  /** Judges behind the caller's back. What does not verify is what peers send; what fails otherwise is told. */
  #later(work: () => Promise<void>): void {
    if (this.#stopped || this.#judging.size >= JUDGING_MAX) return
    const done: Promise<void> = Promise.resolve()
      .then(work)
      .catch((error: unknown) => {
        if (error instanceof ProtocolError) this.#c.logger.debug({ code: error.code }, 'evidence proves nothing')
        else if (!this.#stopped) this.#c.logger.error({ err: error }, 'evidence could not be judged')
      })
      .finally(() => this.#judging.delete(done))
    this.#judging.add(done)
  }

  // ── the network ──

  async check(eid: Eid, { signal }: { signal?: AbortSignal } = {}): Promise<Standing> {
    for (const pom of await this.#served(eid, signal)) await this.#judge(pom, 'told')
    return this.standing(eid)
  }

  async #isKnown(target: Eid): Promise<boolean> {
    const ours = (pom: PomRecord) => this.#isOurs(pom.payload.accuser)
    return (await this.#served(target, undefined)).some((pom) => !ours(pom))
  }

  async #served(eid: Eid, signal: AbortSignal | undefined): Promise<PomRecord[]> {
    if (this.#registry === undefined) return []
    const query = { set: 'poms' as const, key: pomKey(this.#c.crypto, eid), limit: 1 }
    const { entries } = await this.#registry.list(query, signal === undefined ? {} : { signal })
    return entries.flatMap(({ entry }) => (entry.set === 'poms' ? [entry.record] : []))
  }

  // ── for people ──

  view(eid: Eid): StandingView {
    const { book, tickets, distrusted, retirements } = this.#c
    const held = book.get(eid)
    const distrust = distrusted.get(eid)
    const retired = retirements.get(eid)
    return {
      did: eidToDid(eid),
      standing: this.standing(eid),
      refused: this.#isRefused(eid),
      ...(held === undefined ? {} : { evidence: evidenceView(held) }),
      ledger: held?.state.phase !== 'slashed' ? 'none' : held.ledgerTold ? 'told' : 'due',
      ticket: tickets.status(eidHex(eid)),
      ...(distrust === undefined ? {} : { distrusted: { reason: distrust.reason, untilMs: distrust.untilMs } }),
      ...(retired === undefined ? {} : { retired: { by: retired.by, heldSinceMs: retired.heldSinceMs } })
    }
  }

  list({ limit = LIST_LIMIT_DEFAULT }: { limit?: number } = {}): StandingView[] {
    const { book, distrusted } = this.#c
    const names = new Set<EidHex>()
    for (const [name] of book.entries()) names.add(name)
    for (const name of distrusted.names()) if (distrusted.byName(name) !== undefined) names.add(name)
    return [...names].slice(0, limit).map((name) => this.view(eidOf(fromHex(name))))
  }

  onStanding(listener: (eid: EidHex, standing: Standing) => void): void {
    this.#c.book.onStanding(listener)
  }

  async idle(): Promise<void> {
    while (this.#judging.size > 0) await Promise.all(this.#judging)
    await this.#checks.idle()
    await this.#c.book.idle()
    await this.#c.tickets.idle()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#checks.stop()
    await Promise.all(this.#judging)
    await this.#c.tickets.stop()
    await this.#c.book.stop()
  }
}

function evidenceView({ kind, accuser, origin, state, deadlineMs }: HeldVerdict): NonNullable<StandingView['evidence']> {
  return {
    kind,
    accuser: eidToDid(accuser),
    origin,
    challengedAtMs: state.sinceMs,
    deadlineMs,
    ...(state.phase === 'slashed' ? { slashedAtMs: state.atMs } : {})
  }
}

const copy = (bytes: Uint8Array) => new Uint8Array(bytes)
