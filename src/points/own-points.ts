import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { gpKey } from '../../protocol/discovery/dht-key.ts'
import { gpCoordinate } from '../../protocol/discovery/names.ts'
import type { PointAccess } from '../../protocol/discovery/point-messages.ts'
import { type Eid, type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { buildRecord, decodeRecord, recordExpiresAtMs, recordIsAhead } from '../../protocol/records/envelope.ts'
import { GP_TTL_SEC, type Gp, type GpRecord, gpTombstone, gpType } from '../../protocol/records/gp.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Host } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import type { Logger } from '../platform/logger.ts'
import { dhtRecords } from '../spaces/dht-records.ts'
import type { Refreshed, Refresher } from '../spaces/refresher.ts'
import { SequenceBook } from '../spaces/sequence-book.ts'
import type { PublishOptions } from '../spaces/spaces.ts'
import { cborCodec, type Store, type Table } from '../store/store.ts'

/** Points of all our agents together. */
export const POINTS_MAX = 256

/** r: record, v: value, l: trust list, g: grants as [H(secret), when it ends in Unix ms] */
type Row = { r: Uint8Array; v: Uint8Array; l: Uint8Array[]; g: { h: Uint8Array; x: number }[] }

export interface Grant {
  /** H(secret) */
  readonly hash: Uint8Array
  readonly expiresAtMs: number
}

export interface OwnPoint {
  readonly id: string
  readonly record: GpRecord
  /** UTF-8 JSON */
  readonly value: Uint8Array
  readonly trust: readonly Uint8Array[]
  readonly grants: readonly Grant[]
}

export interface OwnPointsComponents {
  host: Host
  store: Store
  clock: Clock
  crypto: CryptoProvider
  logger: Logger
  refresher: Refresher
  agents: (hex: EidHex) => LocalAgent | undefined
}

export interface Put {
  stored: number
  asked: number
}

/** The points of our agents: on disk before they are told, signed anew at half of their hour, gone from the network when they are taken back. */
export class OwnPoints {
  readonly #c: OwnPointsComponents
  readonly #table: Table<Row>
  readonly #sequences: SequenceBook
  readonly #points = new Map<string, OwnPoint>()
  readonly #locks = new KeyedLock()

  private constructor(components: OwnPointsComponents) {
    this.#c = components
    this.#table = components.store.table('own-points', cborCodec<Row>())
    this.#sequences = new SequenceBook(components.store, components.clock)
  }

  static async open(components: OwnPointsComponents): Promise<OwnPoints> {
    const own = new OwnPoints(components)
    for await (const [id, { r, v, l, g }] of own.#table.entries()) {
      const grants = g.map(({ h, x }) => ({ hash: h, expiresAtMs: x }))
      own.#points.set(id, { id, record: decodeRecord(gpType, r), value: v, trust: l, grants })
      own.#keep(id, 'none')
    }
    return own
  }

  /** Those that were not taken back. */
  all(): OwnPoint[] {
    return [...this.#points.values()].filter(({ record }) => record.payload.gone !== true)
  }

  get(eid: Eid, tag: string): OwnPoint | undefined {
    const point = this.#points.get(pointId(eid, tag))
    return point?.record.payload.gone === true ? undefined : point
  }

  /** @throws RookeryError `POINTS_TOO_MANY` */
  async register(
    agent: LocalAgent,
    tag: string,
    what: { access: PointAccess; value: Uint8Array; trust: readonly Uint8Array[] },
    options: PublishOptions
  ): Promise<{ point: OwnPoint } & Put> {
    const id = pointId(agent.eid, tag)
    if (!this.#points.has(id) && this.#points.size >= POINTS_MAX) {
      throw new RookeryError('POINTS_TOO_MANY', `${POINTS_MAX} points are registered already`, {
        kind: 'refused',
        field: 'tag',
        value: tag,
        remedy: 'take one back first: rookery point remove TAG'
      })
    }
    return await this.#change(
      id,
      async () => {
        const grants = what.access === 'grant' ? (this.get(agent.eid, tag)?.grants ?? []) : []
        const record = await this.#sign(agent, tag, what.access, options.signal)
        return { id, record, value: what.value, trust: what.trust, grants }
      },
      options
    )
  }

  async remove(agent: LocalAgent, tag: string, options: PublishOptions): Promise<void> {
    const id = pointId(agent.eid, tag)
    await this.#change(
      id,
      async () => {
        const held = this.#points.get(id)
        if (held === undefined) throw unknownPoint(tag)
        const record = await this.#signGone(agent, held, options.signal)
        return { ...held, record, value: new Uint8Array(0), trust: [], grants: [] }
      },
      options
    )
  }

  /** Changes grants alone: the record stays. */
  async grants(agent: LocalAgent, tag: string, change: (grants: readonly Grant[]) => readonly Grant[]): Promise<void> {
    const id = pointId(agent.eid, tag)
    await this.#locks.run(id, async () => {
      const held = this.get(agent.eid, tag)
      if (held === undefined) throw unknownPoint(tag)
      const nowMs = this.#c.clock.nowMs()
      await this.#save({ ...held, grants: change(held.grants.filter(({ expiresAtMs }) => expiresAtMs > nowMs)) })
    })
  }

  async #change(id: string, make: () => Promise<OwnPoint>, options: PublishOptions): Promise<{ point: OwnPoint } & Put> {
    return await this.#locks.run(id, async () => {
      options.onProgress?.('looking up')
      const point = await make()
      await this.#save(point)
      this.#c.refresher.forget(refreshName(id))
      let put: Put = { stored: 0, asked: 0 }
      try {
        put = await this.#put(point, options)
      } finally {
        this.#keep(id, coverageOf(put))
      }
      return { point, ...put }
    })
  }

  async #sign(agent: LocalAgent, tag: string, access: string, signal: AbortSignal | undefined): Promise<GpRecord> {
    const gen = await this.#number(agent, tag, signal)
    const ts = this.#nowSec()
    const payload: Gp = { eid: agent.eid, tag, access, gen, ts, exp: ts + GP_TTL_SEC }
    return buildRecord(this.#c.crypto, gpType, payload, agent.signer)
  }

  async #signGone(agent: LocalAgent, { record: { payload: held } }: OwnPoint, signal: AbortSignal | undefined): Promise<GpRecord> {
    const gen = await this.#number(agent, held.tag, signal)
    return buildRecord(this.#c.crypto, gpType, gpTombstone(held, { gen, nowSec: this.#nowSec() }), agent.signer)
  }

  /** Above what the network holds of it: a restored backup starts behind. */
  async #number(agent: LocalAgent, tag: string, signal: AbortSignal | undefined): Promise<number> {
    const { crypto, clock, host } = this.#c
    let seen = -1
    for await (const record of dhtRecords({ dht: host.dht, crypto, clock }, gpKey(gpCoordinate(crypto, agent.eid, tag)), signal)) {
      if (record.kind === 'gp') seen = Math.max(seen, record.payload.gen)
    }
    return await this.#sequences.next(`gp:${pointId(agent.eid, tag)}`, seen, signal)
  }

  async #save(point: OwnPoint): Promise<void> {
    const { id, record, value, trust, grants } = point
    const row: Row = { r: record.bytes, v: value, l: [...trust], g: grants.map(({ hash, expiresAtMs }) => ({ h: hash, x: expiresAtMs })) }
    await this.#c.store.commit([this.#table.put(id, row)])
    this.#points.set(id, point)
  }

  async #put({ record }: OwnPoint, options: PublishOptions): Promise<Put> {
    const { crypto, host, logger } = this.#c
    const key = gpKey(gpCoordinate(crypto, record.payload.eid, record.payload.tag))
    try {
      const { stored, asked } = await host.dht.put(key, record.bytes, options.signal === undefined ? {} : { signal: options.signal })
      options.onProgress?.(`stored ${stored} of ${asked}`)
      return { stored, asked }
    } catch (error) {
      options.signal?.throwIfAborted()
      logger.warn({ error }, 'the DHT did not take a point of ours; it is put again')
      return { stored: 0, asked: 0 }
    }
  }

  #keep(id: string, coverage: 'full' | 'partial' | 'none'): void {
    const point = this.#points.get(id)
    if (point === undefined) return
    this.#c.refresher.keep(refreshName(id), {
      ttlMs: GP_TTL_SEC * 1_000,
      signedAtMs: point.record.payload.ts * 1_000,
      coverage,
      sign: (signal) => this.#refresh(id, 'sign', signal),
      put: (signal) => this.#refresh(id, 'put', signal)
    })
  }

  async #refresh(id: string, verb: 'sign' | 'put', signal: AbortSignal): Promise<Refreshed> {
    return await this.#locks.run(id, async () => {
      let point = this.#points.get(id)
      const agent = point === undefined ? undefined : this.#c.agents(eidHex(point.record.payload.eid))
      const expired = point !== undefined && recordExpiresAtMs(point.record) <= this.#c.clock.nowMs()
      const gone = point?.record.payload.gone === true
      if (point === undefined || (agent === undefined && !gone) || (gone && expired)) {
        await this.#c.store.commit([this.#table.del(id)])
        this.#points.delete(id)
        return { signedAtMs: 0, coverage: 'full', next: 'forget' }
      }
      if (!gone && agent !== undefined && (verb === 'sign' || expired)) {
        const { tag, access } = point.record.payload
        point = { ...point, record: await this.#sign(agent, tag, access, signal) }
        await this.#save(point)
      } else if (gone && agent !== undefined && recordIsAhead(point.record, this.#c.clock.nowMs())) {
        point = { ...point, record: await this.#signGone(agent, point, signal) }
        await this.#save(point)
      }
      return { signedAtMs: point.record.payload.ts * 1_000, coverage: coverageOf(await this.#put(point, { signal })) }
    })
  }

  #nowSec(): number {
    return Math.floor(this.#c.clock.nowMs() / 1_000)
  }
}

export function unknownPoint(tag: string, did?: string): RookeryError {
  return new RookeryError('POINT_UNKNOWN', did === undefined ? `the agent has no point "${tag}"` : `${did} has no point "${tag}"`, {
    kind: 'notFound',
    field: 'tag',
    value: tag,
    remedy: 'check the tag, upper and lower case included; `rookery point list` shows your own'
  })
}

function coverageOf({ stored, asked }: Put): 'full' | 'partial' {
  return asked > 1 && stored === asked ? 'full' : 'partial'
}

function pointId(eid: Eid, tag: string): string {
  return `${toHex(eid)}:${tag}`
}

const refreshName = (id: string) => `point:${id}`
