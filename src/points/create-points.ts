import { equals, equalsConstantTime, toHex, utf8 } from '../../protocol/bytes.ts'
import { gpKey } from '../../protocol/discovery/dht-key.ts'
import { gpCoordinate, TAG } from '../../protocol/discovery/names.ts'
import { POINT_ACCESS, POINT_GRANT_BYTES, POINT_VALUE_BYTES_MAX } from '../../protocol/discovery/point-messages.ts'
import { type Eid, eidToDid, eid as toEid } from '../../protocol/identity/eid.ts'
import { recordExpiresAtMs } from '../../protocol/records/envelope.ts'
import type { GpRecord } from '../../protocol/records/gp.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Random } from '../platform/random.ts'
import type { Session } from '../sessions/session.ts'
import { dhtRecords } from '../spaces/dht-records.ts'
import { Refresher } from '../spaces/refresher.ts'
import type { PublishOptions } from '../spaces/spaces.ts'
import type { Json } from '../tasks/todo.ts'
import { type OwnPoint, OwnPoints, type OwnPointsComponents, unknownPoint } from './own-points.ts'
import { type PointAnswer, pointChannelOf, readPoint } from './point-channel.ts'
import type { OwnPointView, PointInput, Points, PointView } from './points.ts'

const TRUST_MAX = 64
const GRANTS_MAX = 64
const GRANT_ID_DIGITS = 16

export interface PointsComponents extends Omit<OwnPointsComponents, 'refresher'> {
  random: Random
  open(from: LocalAgent, to: Eid, options: PublishOptions): Promise<Session>
}

/** Opens the points that our agents registered before and keeps them alive from now on. */
export async function createPoints(components: PointsComponents): Promise<NodePoints> {
  const logger = components.logger.child('points')
  const refresher = new Refresher({ ...components, logger })
  const own = await OwnPoints.open({ ...components, logger, refresher })
  return new NodePoints(components, own, refresher)
}

export class NodePoints implements Points {
  readonly #c: PointsComponents
  readonly #own: OwnPoints
  readonly #refresher: Refresher
  readonly #unsubscribe: () => void

  constructor(components: PointsComponents, own: OwnPoints, refresher: Refresher) {
    this.#c = components
    this.#own = own
    this.#refresher = refresher
    this.#unsubscribe = components.host.onPeer(({ kind }) => {
      if (kind === 'connect') refresher.peersArrived()
    })
  }

  async register(input: PointInput, options: PublishOptions = {}): Promise<OwnPointView & { stored: number; asked: number }> {
    const { agent, access, trust = [] } = input
    const tag = checkedTag(input.tag)
    if (!POINT_ACCESS.includes(access)) throw refused('access', access, `access is one of ${POINT_ACCESS.join(', ')}`)
    if (trust.length > TRUST_MAX) throw refused('trust', trust.length, `a point trusts at most ${TRUST_MAX} agents by name`)
    if (trust.length > 0 && access !== 'trust') throw refused('trust', trust.length, 'a trust list goes with access "trust"')
    const value = utf8(JSON.stringify(input.value))
    if (value.length > POINT_VALUE_BYTES_MAX) {
      throw refused('value', value.length, `a point's value has at most ${POINT_VALUE_BYTES_MAX} bytes of JSON, not ${value.length}`)
    }
    const { point, stored, asked } = await this.#own.register(agent, tag, { access, value, trust }, options)
    return { ...this.#ownView(point), stored, asked }
  }

  async remove({ agent, tag }: { agent: LocalAgent; tag: string }, options: PublishOptions = {}): Promise<void> {
    if (this.#own.get(agent.eid, tag) === undefined) throw unknownPoint(tag)
    await this.#own.remove(agent, tag, options)
  }

  async grant({ agent, tag }: { agent: LocalAgent; tag: string }, { ttlMs }: { ttlMs: number }): Promise<Uint8Array> {
    const { random, crypto, clock } = this.#c
    const point = this.#own.get(agent.eid, tag)
    if (point === undefined) throw unknownPoint(tag)
    if (point.record.payload.access !== 'grant')
      throw refused('access', point.record.payload.access, 'only a point with access "grant" has grants')
    const secret = random.bytes(POINT_GRANT_BYTES)
    await this.#own.grants(agent, tag, (grants) => {
      if (grants.length >= GRANTS_MAX) {
        throw new RookeryError('POINT_GRANTS_TOO_MANY', `the point has ${GRANTS_MAX} grants in force`, {
          kind: 'refused',
          field: 'tag',
          value: tag,
          remedy: 'revoke one, or wait until one ends'
        })
      }
      return [...grants, { hash: crypto.sha256(secret), expiresAtMs: clock.nowMs() + ttlMs }]
    })
    return secret
  }

  async revoke({ agent, tag }: { agent: LocalAgent; tag: string }, id: string): Promise<void> {
    await this.#own.grants(agent, tag, (grants) => {
      const left = grants.filter(({ hash }) => grantId(hash) !== id)
      if (left.length === grants.length) throw refused('id', id, `the point has no grant ${id}`)
      return left
    })
  }

  list(): OwnPointView[] {
    return this.#own.all().map((point) => this.#ownView(point))
  }

  records(): GpRecord[] {
    const nowMs = this.#c.clock.nowMs()
    return this.#own
      .all()
      .map(({ record }) => record)
      .filter((record) => recordExpiresAtMs(record) > nowMs)
  }

  async resolve({ eid, tag }: { eid: Eid; tag: string }, options: PublishOptions = {}): Promise<PointView> {
    const { host, crypto, clock } = this.#c
    options.onProgress?.('looking up the point')
    let newest: GpRecord | undefined
    for await (const record of dhtRecords(
      { dht: host.dht, crypto, clock },
      gpKey(gpCoordinate(crypto, eid, checkedTag(tag))),
      options.signal
    )) {
      if (record.kind === 'gp' && (newest?.payload.gen ?? -1) < record.payload.gen) newest = record
    }
    if (newest === undefined || newest.payload.gone === true) throw unknownPoint(tag, eidToDid(eid))
    return this.#view(newest)
  }

  async read(
    { from, eid, tag, grant }: { from: LocalAgent; eid: Eid; tag: string; grant?: Uint8Array },
    options: PublishOptions = {}
  ): Promise<Json> {
    if (grant !== undefined && grant.length !== POINT_GRANT_BYTES)
      throw refused('grant', undefined, `a grant is ${POINT_GRANT_BYTES} bytes`)
    const session = await this.#c.open(from, eid, options)
    options.onProgress?.('reading the point')
    return await readPoint(
      session,
      this.#c.clock,
      { tag: checkedTag(tag), reader: eidToDid(from.eid), ...(grant === undefined ? {} : { grant }) },
      options
    )
  }

  /**
   * Answers reads of the session's peer: the caller is the EID that the session proved, whoever it says it is.
   * @param identities - that EID and those that it is known to have had
   * @param elsewhere - asked for a tag that is no global point
   */
  serve(session: Session, identities: () => readonly Eid[], elsewhere: (tag: string) => PointAnswer): void {
    pointChannelOf(session, this.#c.clock).serve(({ tag, grant }): PointAnswer => {
      const point = this.#own.get(session.local.eid, tag)
      if (point === undefined) return elsewhere(tag)
      return this.#mayRead(point, identities(), grant) ? { status: 'ok', value: point.value } : { status: 'denied' }
    })
  }

  #mayRead({ record, trust, grants }: OwnPoint, caller: readonly Eid[], grant: Uint8Array | undefined): boolean {
    const { clock, crypto } = this.#c
    switch (record.payload.access) {
      case 'open':
        return true
      case 'trust':
        return trust.some((trusted) => caller.some((eid) => equals(trusted, eid)))
      case 'grant': {
        if (grant === undefined) return false
        const hash = crypto.sha256(grant)
        return grants.some((held) => held.expiresAtMs > clock.nowMs() && equalsConstantTime(held.hash, hash))
      }
      default:
        return false // a word of a later version allows nothing
    }
  }

  async handOver(from: LocalAgent, to: LocalAgent, options: PublishOptions = {}): Promise<void> {
    for (const point of this.#own.all()) {
      if (!equals(point.record.payload.eid, from.eid)) continue
      const { tag, access } = point.record.payload
      if (this.#own.get(to.eid, tag) === undefined) {
        await this.#own.register(to, tag, { access: access as PointInput['access'], value: point.value, trust: point.trust }, options)
        await this.#own.grants(to, tag, () => point.grants)
      }
      await this.#own.remove(from, tag, options)
    }
  }

  #view({ payload, ...record }: GpRecord): PointView {
    const { eid, tag, access, gen } = payload
    return {
      did: eidToDid(eid),
      tag,
      coordinate: toHex(gpCoordinate(this.#c.crypto, eid, tag)),
      access,
      gen,
      expiresAtMs: recordExpiresAtMs({ ...record, payload })
    }
  }

  #ownView(point: OwnPoint): OwnPointView {
    const nowMs = this.#c.clock.nowMs()
    const { eid } = point.record.payload
    return {
      ...this.#view(point.record),
      agent: this.#c.agents(toHex(eid) as Parameters<PointsComponents['agents']>[0])?.name ?? '',
      value: JSON.parse(new TextDecoder().decode(point.value)) as Json,
      trust: point.trust.map((trusted) => eidToDid(toEid(trusted))),
      grants: point.grants
        .filter(({ expiresAtMs }) => expiresAtMs > nowMs)
        .map(({ hash, expiresAtMs }) => ({ id: grantId(hash), expiresAtMs }))
    }
  }

  idle(): Promise<void> {
    return this.#refresher.idle()
  }

  async stop(): Promise<void> {
    this.#unsubscribe()
    await this.#refresher.stop()
  }
}

function grantId(hash: Uint8Array): string {
  return toHex(hash).slice(0, GRANT_ID_DIGITS)
}

function checkedTag(tag: string): string {
  if (TAG.test(tag)) return tag
  throw refused('tag', tag, 'a tag has 1 to 64 printable ASCII characters')
}

function refused(field: string, value: unknown, message: string): RookeryError {
  return new RookeryError('POINT_INVALID', message, { kind: 'usage', field, ...(value === undefined ? {} : { value }) })
}
