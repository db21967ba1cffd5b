import { equals, equalsConstantTime, toHex, utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { TAG } from '../../protocol/discovery/names.ts'
import { POINT_VALUE_BYTES_MAX } from '../../protocol/discovery/point-messages.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, type EidHex, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import { buildRecord, openRecord, recordExpiresAtMs } from '../../protocol/records/envelope.ts'
import { LP_ADDRS_MAX, LP_TTL_SEC, type LpRecord, lpType } from '../../protocol/records/lp.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Host, PeerAddress } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { unknownPoint } from '../points/own-points.ts'
import type { PointAnswer } from '../points/point-channel.ts'
import type { Session } from '../sessions/session.ts'
import { cborCodec, type Store, type Table } from '../store/store.ts'
import type { Json } from '../tasks/todo.ts'
import type { Link } from './link.ts'
import { type NeighbourChange, type NeighbourRows, Neighbours } from './neighbours.ts'
import { ipOf, isOnLink, type OwnAddress } from './on-link.ts'

const ANNOUNCE_MS = 60_000
const NEIGHBOURS_MS = 30_000
/** Who asks again and again is answered at most this often. */
const ASKED_PAUSE_MS = 1_000
export const OWN_LOCAL_POINTS_MAX = 64
/** Points of others on the link; beyond them new ones are not noted until some have run out. */
export const FOUND_LOCAL_POINTS_MAX = 256

/** a: agent, t: tag, c: access, v: value, l: trust list */
type Row = { a: Uint8Array; t: string; c: string; v: Uint8Array; l: Uint8Array[] }

export interface LocalPointView {
  did: string
  tag: string
  access: string
  /** ours, or at which address of the link */
  at: 'own' | string
  /** what the system says stands there, where it says anything */
  mac?: string
  expiresAtMs?: number
}

export interface LocalPointsComponents {
  host: Host
  store: Store
  clock: Clock
  crypto: CryptoProvider
  logger: Logger
  link: Link
  neighbours: () => Promise<NeighbourRows>
  own: () => readonly OwnAddress[]
  agents: (hex: EidHex) => LocalAgent | undefined
  /** whether the agent may have points on the link: one that the whole network knows may not, unless that was configured */
  mayBeLocal: (agent: LocalAgent) => boolean
}

interface Found {
  readonly record: LpRecord
  readonly ip: string
}

/**
 * Local points (ESE-06 … ESE-08): announced on this link alone by multicast, read over sessions from this link alone. Nothing of them reaches the DHT, a
 * registrar or an anonymous answer: their records have a kind that none of these takes.
 */
export class LocalPoints {
  readonly #c: LocalPointsComponents
  readonly #table: Table<Row>
  readonly #points = new Map<string, Row>()
  readonly #found = new Map<string, Found>()
  readonly #neighbours: Neighbours
  readonly #alarms = new Set<(change: NeighbourChange) => void>()
  #answeredAtMs = Number.NEGATIVE_INFINITY
  #cancel: (() => void)[] = []
  #stopped = false

  private constructor(components: LocalPointsComponents) {
    this.#c = components
    this.#neighbours = new Neighbours(components.clock)
    this.#table = components.store.table('own-local-points', cborCodec<Row>())
  }

  static async open(components: LocalPointsComponents): Promise<LocalPoints> {
    const local = new LocalPoints(components)
    for await (const [id, row] of local.#table.entries()) local.#points.set(id, row)
    components.link.listen({ record: (bytes, from) => local.#heard(bytes, from), asked: () => local.#asked() })
    local.#every(ANNOUNCE_MS, async () => local.#announce())
    local.#every(NEIGHBOURS_MS, () => local.#look())
    local.#announce()
    components.link.ask()
    return local
  }

  /** @throws RookeryError `AGENT_GLOBAL`, `POINT_INVALID`, `POINTS_TOO_MANY` */
  async register({
    agent,
    tag,
    access,
    value,
    trust = []
  }: {
    agent: LocalAgent
    tag: string
    access: 'open' | 'trust'
    value: Json
    trust?: readonly Eid[]
  }): Promise<LocalPointView> {
    if (!this.#c.mayBeLocal(agent)) {
      throw new RookeryError(
        'AGENT_GLOBAL',
        `agent "${agent.name}" is known to the whole network: its points on the link would give it away`,
        {
          kind: 'refused',
          field: 'localPoints.agents',
          value: agent.name,
          remedy: 'name it in localPoints.agents of config.yaml, or set localPoints.global: yes'
        }
      )
    }
    const bytes = utf8(JSON.stringify(value))
    if (!TAG.test(tag)) throw refused('tag', tag, 'a tag has 1 to 64 printable ASCII characters')
    if (bytes.length > POINT_VALUE_BYTES_MAX)
      throw refused('value', bytes.length, `a value has at most ${POINT_VALUE_BYTES_MAX} bytes of JSON`)
    const id = pointId(agent.eid, tag)
    if (!this.#points.has(id) && this.#points.size >= OWN_LOCAL_POINTS_MAX) {
      throw new RookeryError('POINTS_TOO_MANY', `${OWN_LOCAL_POINTS_MAX} local points are registered already`, {
        kind: 'refused',
        field: 'tag',
        value: tag
      })
    }
    const row: Row = { a: agent.eid, t: tag, c: access, v: bytes, l: [...trust] }
    await this.#c.store.commit([this.#table.put(id, row)])
    this.#points.set(id, row)
    this.#announce()
    return { did: agent.did, tag, access, at: 'own' }
  }

  /** @throws RookeryError `POINT_UNKNOWN` */
  async remove({ agent, tag }: { agent: LocalAgent; tag: string }): Promise<void> {
    const id = pointId(agent.eid, tag)
    const row = this.#points.get(id)
    if (row === undefined) throw unknownPoint(tag)
    await this.#c.store.commit([this.#table.del(id)])
    this.#points.delete(id)
    const farewell = this.#record(row, agent, 'gone')
    this.#c.link.announce([farewell.bytes])
  }

  /** Ours, then those of others that live. */
  list(): LocalPointView[] {
    const own = [...this.#points.values()].map((row) => ({ did: eidToDid(row.a as Eid), tag: row.t, access: row.c, at: 'own' as const }))
    const found = this.#live().map(({ record, ip }) => {
      const mac = this.#neighbours.macOf(ip)
      const { eid, tag, access } = record.payload
      return { did: eidToDid(eid), tag, access, at: ip, ...(mac === undefined ? {} : { mac }), expiresAtMs: recordExpiresAtMs(record) }
    })
    return [...own, ...found]
  }

  /** Where the owner of a point of this link is dialled. @throws RookeryError `POINT_UNKNOWN` */
  locate(eid: Eid, tag: string): PeerAddress {
    const found = this.#live().find(({ record: { payload } }) => equals(payload.eid, eid) && payload.tag === tag)
    if (found === undefined) throw unknownPoint(tag, eidToDid(eid))
    const { peer, addrs } = found.record.payload
    return { peer, addrs: addrs.filter((addr) => isOnLink(ipOf(addr) ?? '', this.#c.own())) }
  }

  /** Told when another MAC than before stands at an address of the link. */
  onNeighbourChange(listener: (change: NeighbourChange) => void): () => void {
    this.#alarms.add(listener)
    return () => this.#alarms.delete(listener)
  }

  /** Answers a read of a session's peer, if it is on this link; to all others there is no such point. */
  answer(session: Session, identities: readonly Eid[], tag: string): PointAnswer {
    const row = this.#points.get(pointId(session.local.eid, tag))
    if (row === undefined || !isOnLink(ipOf(session.info().remoteAddr) ?? '', this.#c.own())) return { status: 'unknown' }
    const may =
      row.c === 'open' || (row.c === 'trust' && row.l.some((trusted) => identities.some((eid) => equalsConstantTime(trusted, eid))))
    return may ? { status: 'ok', value: row.v } : { status: 'denied' }
  }

  #live(): Found[] {
    const nowMs = this.#c.clock.nowMs()
    for (const [id, { record }] of this.#found) if (recordExpiresAtMs(record) <= nowMs) this.#found.delete(id)
    return [...this.#found.values()]
  }

  /** Length, form, time and signature are the record's; where it came from the link has checked. */
  #heard(bytes: Uint8Array, ip: string): void {
    let record: LpRecord
    try {
      record = openRecord(this.#c.crypto, lpType, bytes, { nowMs: this.#c.clock.nowMs() })
    } catch (error) {
      if (error instanceof ProtocolError) return
      throw error
    }
    const { eid, tag, ts, gone } = record.payload
    if (this.#c.agents(eidHex(eid)) !== undefined) return
    const id = pointId(eid, tag)
    const held = this.#found.get(id)
    if (held !== undefined && held.record.payload.ts > ts) return
    if (gone === true) return void this.#found.delete(id)
    if (held === undefined && this.#live().length >= FOUND_LOCAL_POINTS_MAX) return
    this.#found.set(id, { record, ip })
  }

  #asked(): void {
    const nowMs = this.#c.clock.monotonicMs()
    if (nowMs - this.#answeredAtMs < ASKED_PAUSE_MS) return
    this.#answeredAtMs = nowMs
    this.#announce()
  }

  #announce(): void {
    const records = [...this.#points.values()].flatMap((row) => {
      const agent = this.#c.agents(eidHex(row.a as Eid))
      return agent === undefined ? [] : [this.#record(row, agent, 'live').bytes]
    })
    if (records.length > 0) this.#c.link.announce(records)
  }

  #record({ t, c }: Row, agent: LocalAgent, state: 'live' | 'gone'): LpRecord {
    const { host, clock, crypto, own } = this.#c
    const ts = Math.floor(clock.nowMs() / 1_000)
    const addrs = host.addresses().filter((addr) => addr.length <= 128 && isOnLink(ipOf(addr) ?? '', own()))
    const payload = { eid: agent.eid, tag: t, access: c, peer: host.peer, addrs: addrs.slice(0, LP_ADDRS_MAX), ts, exp: ts + LP_TTL_SEC }
    return buildRecord(crypto, lpType, state === 'gone' ? { ...payload, gone: true } : payload, agent.signer)
  }

  async #look(): Promise<void> {
    for (const change of this.#neighbours.update(await this.#c.neighbours())) {
      this.#c.logger.warn({ ...change }, 'another device than before stands at an address of this link')
      for (const listener of this.#alarms) listener(change)
    }
  }

  #every(ms: number, work: () => Promise<void>): void {
    const again = () => {
      const cancel = this.#c.clock.after(ms, () => {
        this.#cancel = this.#cancel.filter((one) => one !== cancel)
        work()
          .catch((error: unknown) => this.#c.logger.warn({ error }, 'the local link could not be looked after'))
          .finally(() => {
            if (!this.#stopped) again()
          })
      })
      this.#cancel.push(cancel)
    }
    again()
  }

  /** Says farewell: others need not wait for the records to run out. */
  async stop(): Promise<void> {
    this.#stopped = true
    for (const cancel of this.#cancel) cancel()
    for (const row of this.#points.values()) {
      const agent = this.#c.agents(eidHex(row.a as Eid))
      if (agent !== undefined) this.#c.link.announce([this.#record(row, agent, 'gone').bytes])
    }
    await this.#c.link.close()
  }
}

function pointId(eid: Eid, tag: string): string {
  return `${toHex(eid)}:${tag}`
}

function refused(field: string, value: unknown, message: string): RookeryError {
  return new RookeryError('POINT_INVALID', message, { kind: 'usage', field, value })
}
