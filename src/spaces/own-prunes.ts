import { equals, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { type DsId, parseSpaceName, type SpaceName } from '../../protocol/discovery/names.ts'
import { type Eid, type EidHex, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import { buildRecord, decodeRecord, recordExpiresAtMs, recordIsAhead } from '../../protocol/records/envelope.ts'
import { PRUNE_TTL_SEC, type PruneRecord, pruneType } from '../../protocol/records/prune.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import { SettledTime } from '../platform/settled-time.ts'
import { cborCodec, type Store, type Table } from '../store/store.ts'
import { nameText, type OwnAnnounce } from './own-spaces.ts'
import type { Refreshed, Refresher } from './refresher.ts'
import type { RegistryClient, RequestOptions } from './registry-client.ts'
import type { PruneView, PublishOptions, PutCounts } from './spaces.ts'

/** Prunes of all our agents together: what a registrar holds for one space. */
const PRUNES_MAX = 1_000
/** A member is hidden for this long at most without being pruned again. */
const PRUNE_MS_MAX = 365 * 86_400_000
const TTL_MS = PRUNE_TTL_SEC * 1_000

/** n: name, r: record */
type Row = { n: string; r: Uint8Array }

interface OwnPrune {
  readonly id: string
  readonly name: SpaceName
  readonly record: PruneRecord
}

export interface OwnPrunesComponents {
  clock: Clock
  crypto: CryptoProvider
  store: Store
  registry: Pick<RegistryClient, 'put'>
  refresher: Refresher
  agents: (eidHex: EidHex) => LocalAgent | undefined
}

/** Whom our curators hide from their listings, on disk, signed anew until it ends (protocol/README.md §3, `prune`). */
export class OwnPrunes {
  readonly #c: OwnPrunesComponents
  readonly #table: Table<Row>
  readonly #prunes = new Map<string, OwnPrune>()
  readonly #locks = new KeyedLock()
  readonly #settled: SettledTime

  private constructor(components: OwnPrunesComponents) {
    this.#c = components
    this.#settled = new SettledTime(components.clock)
    this.#table = components.store.table('own-prunes', cborCodec<Row>())
  }

  /** Opens what was pruned before and goes on with it. */
  static async open(components: OwnPrunesComponents): Promise<OwnPrunes> {
    const own = new OwnPrunes(components)
    for await (const [id, row] of own.#table.entries()) {
      const prune = { id, name: parseSpaceName(row.n), record: decodeRecord(pruneType, row.r) }
      own.#prunes.set(id, prune)
      own.#keep(prune, 'none')
    }
    return own
  }

  /** @param untilMs - `shown`: no longer. @throws RookeryError `PRUNE_UNTIL`, `PRUNES_TOO_MANY` */
  async prune(
    space: OwnAnnounce,
    curator: LocalAgent,
    member: Eid,
    untilMs: number | 'shown' | undefined,
    options: PublishOptions
  ): Promise<PruneView> {
    const nowMs = this.#c.clock.nowMs()
    const until = untilMs === 'shown' ? nowMs : this.#checkedUntil(untilMs ?? nowMs + TTL_MS)
    const id = pruneId(space.dsid, curator.eid, member)
    if (!this.#prunes.has(id) && this.#prunes.size >= PRUNES_MAX) {
      throw new RookeryError('PRUNES_TOO_MANY', `${PRUNES_MAX} members are pruned already`, {
        kind: 'refused',
        field: 'member',
        value: eidToDid(member),
        remedy: 'prune for a shorter time, or show some of them again'
      })
    }
    const { prune, published } = await this.#locks.run(id, async () => {
      const signed = await this.#sign(id, space.name, { dsid: space.dsid, curator, member, until: Math.floor(until / 1_000) })
      return { prune: signed, published: await this.#put(signed, options) }
    })
    this.#keep(prune, coverageOf(published))
    const { eid, until: untilSec } = prune.record.payload
    return { space: nameText(space.name), member: eidToDid(eid), untilMs: untilSec * 1_000, ...published }
  }

  /** The heir of a space hides whom its former self hid. */
  async handOver(space: OwnAnnounce, to: LocalAgent, options: PublishOptions): Promise<void> {
    const nowMs = this.#c.clock.nowMs()
    for (const { record } of [...this.#prunes.values()]) {
      const { dsid, curator, eid, until } = record.payload
      if (!equals(dsid, space.dsid) || !equals(curator, space.eid) || until * 1_000 <= nowMs) continue
      if (!this.#prunes.has(pruneId(dsid, to.eid, eid))) await this.prune(space, to, eid, until * 1_000, options)
    }
  }

  #checkedUntil(untilMs: number): number {
    const nowMs = this.#c.clock.nowMs()
    if (Number.isSafeInteger(untilMs) && untilMs > nowMs && untilMs <= nowMs + PRUNE_MS_MAX) return untilMs
    throw new RookeryError('PRUNE_UNTIL', 'a member is hidden until a time to come, at most a year from now', {
      kind: 'usage',
      field: 'untilMs',
      value: untilMs,
      remedy: 'give Unix milliseconds to come, or leave it out for a day'
    })
  }

  /** On disk before it goes out. Of one place the higher `ts` wins, so a second word within a second is dated one later. */
  async #sign(id: string, name: SpaceName, what: { dsid: DsId; curator: LocalAgent; member: Eid; until: number }): Promise<OwnPrune> {
    const { clock, crypto, store } = this.#c
    const held = this.#prunes.get(id)?.record
    const last = held === undefined || recordIsAhead(held, clock.nowMs()) ? -1 : held.payload.ts
    const ts = Math.max(Math.floor(clock.nowMs() / 1_000), last + 1)
    const { dsid, curator, member, until } = what
    const payload = { dsid, eid: member, curator: curator.eid, until, ts, exp: ts + PRUNE_TTL_SEC }
    const prune = { id, name, record: buildRecord(crypto, pruneType, payload, curator.signer) }
    await store.commit([this.#table.put(id, { n: nameText(name), r: prune.record.bytes })])
    this.#prunes.set(id, prune)
    return prune
  }

  async #put({ record }: OwnPrune, options: RequestOptions): Promise<PutCounts> {
    const { registrars, stored } = await this.#c.registry.put({ set: 'prunes', key: record.payload.dsid, record: record.bytes }, options)
    return { registrars, stored }
  }

  #keep({ id, record }: OwnPrune, coverage: 'full' | 'partial' | 'none'): void {
    this.#c.refresher.keep(`prune:${id}`, {
      ttlMs: TTL_MS,
      signedAtMs: record.payload.ts * 1_000,
      coverage,
      sign: (signal) => this.#refresh(id, 'sign', signal),
      put: (signal) => this.#refresh(id, 'put', signal)
    })
  }

  async #refresh(id: string, verb: 'sign' | 'put', signal: AbortSignal): Promise<Refreshed> {
    return await this.#locks.run(id, async () => {
      let prune = this.#prunes.get(id)
      const nowMs = this.#c.clock.nowMs()
      const curator = prune === undefined ? undefined : this.#c.agents(eidHex(prune.record.payload.curator))
      const isOver = prune !== undefined && prune.record.payload.until * 1_000 <= nowMs
      const isDone = prune !== undefined && isOver && recordExpiresAtMs(prune.record) <= nowMs
      if (prune !== undefined && curator !== undefined && isDone && prune.record.payload.until * 1_000 > this.#settled.nowMs()) {
        return { signedAtMs: prune.record.payload.ts * 1_000, coverage: 'partial' } // only a clock that has just jumped ahead says so
      }
      if (prune === undefined || curator === undefined || isDone) {
        await this.#remove(id)
        return { signedAtMs: 0, coverage: 'full', next: 'forget' }
      }
      const { dsid, eid: member, until } = prune.record.payload
      if (!isOver && (verb === 'sign' || recordExpiresAtMs(prune.record) <= nowMs)) {
        prune = await this.#sign(id, prune.name, { dsid, curator, member, until })
      }
      return { signedAtMs: prune.record.payload.ts * 1_000, coverage: coverageOf(await this.#put(prune, { signal })) }
    })
  }

  async #remove(id: string): Promise<void> {
    await this.#c.store.commit([this.#table.del(id)])
    this.#prunes.delete(id)
  }
}

function coverageOf({ registrars, stored }: PutCounts): 'full' | 'partial' {
  return registrars > 1 && stored === registrars ? 'full' : 'partial'
}

function pruneId(dsid: DsId, curator: Eid, member: Eid): string {
  return `${toHex(dsid)}:${toHex(curator)}:${toHex(member)}`
}
