import { toHex } from '../../protocol/bytes.ts'
import { encodeAnswer } from '../../protocol/discovery/answer.ts'
import { meetsCriteria } from '../../protocol/discovery/criteria.ts'
import { gpKey } from '../../protocol/discovery/dht-key.ts'
import type { GpCoordinate } from '../../protocol/discovery/names.ts'
import { membersOfEach } from '../../protocol/discovery/relay.ts'
import { HOPS } from '../../protocol/discovery/request.ts'
import { sealItem } from '../../protocol/discovery/sealed-item.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import { announceType } from '../../protocol/records/announce.ts'
import { decodeRecord } from '../../protocol/records/envelope.ts'
import { type GpRecord, gpType } from '../../protocol/records/gp.ts'
import { type JoinRecord, joinType } from '../../protocol/records/join.ts'
import { RookeryError } from '../errors.ts'
import type { PeerAddress } from '../net/host.ts'
import { shuffled } from '../platform/shuffled.ts'
import type { AnswersBack } from './answers-back.ts'
import type { AdmittedRequest, DiscoveryComponents, ToSelf } from './components.ts'
import { forward } from './relay-role.ts'

/** Pages of a set that one request looks at: no more than a LIST of the registry costs. */
const PAGES_MAX = 10
const PAGE = 100
/** Announcements of one sharded space that are told, drawn from one page: more than these curators of one space are squatters all but one. */
const ANNOUNCEMENTS_MAX = 4

/** Answers with public records and asks the members themselves (protocol/README.md §5). */
export class RegistrarRole {
  readonly #c: DiscoveryComponents
  readonly #toSelf: ToSelf

  constructor(components: DiscoveryComponents, toSelf: ToSelf) {
    this.#c = components
    this.#toSelf = toSelf
  }

  async serve(admitted: AdmittedRequest, back: AnswersBack, signal: AbortSignal): Promise<void> {
    const { request } = admitted
    const point = this.#point(admitted)
    const joins = point === undefined ? await this.#matching(admitted, request.fanOut) : []
    const tell = async () => {
      if (!request.records) return
      if (point !== undefined) await this.#record(admitted, encodeAnswer({ gp: point.bytes }), back)
      for (const join of joins.filter(({ payload }) => payload.unlisted !== true))
        await this.#record(admitted, encodeAnswer({ join: join.bytes }), back)
    }
    const ask = async () => {
      if (!request.contact) return
      const eids = point === undefined ? joins.map((join) => join.payload.eid) : [point.payload.eid]
      await this.#askMembers(admitted, eids.slice(0, membersOfEach(request.fanOut)), back, signal)
    }
    await Promise.all([this.#tellParts(admitted, back), tell(), ask()])
  }

  /** Who asks at the DS_ID of a space with several parts learns how many, and looks there (protocol/README.md §5). */
  async #tellParts(admitted: AdmittedRequest, back: AnswersBack): Promise<void> {
    const { registry, random } = this.#c
    const request = {
      verb: 'list' as const,
      set: 'announcements' as const,
      key: admitted.request.target,
      cursor: random.bytes(32),
      limit: PAGE
    }
    const around = [await registry.held(request), await registry.held({ ...request, cursor: new Uint8Array(0) })]
    const told = new Map<string, Uint8Array>()
    for (const bytes of around.flatMap(({ records }) => records)) {
      const { curator, shards, gone } = decodeRecord(announceType, bytes).payload
      if (gone !== true && shards > 1 && told.size < ANNOUNCEMENTS_MAX) told.set(toHex(curator), bytes)
    }
    for (const announce of told.values()) await this.#record(admitted, encodeAnswer({ announce }), back)
  }

  /** The point's record, where the target is one that this node holds. */
  #point({ request, criteria }: AdmittedRequest): GpRecord | undefined {
    const held = this.#c.host.dht.held(gpKey(request.target as GpCoordinate))
    if (held === undefined) return undefined
    const record = decodeRecord(gpType, held)
    const { eid, tag, gone } = record.payload
    return gone !== true && meetsCriteria({ tags: [tag], reputation: this.#c.reputation(eid) }, criteria) ? record : undefined
  }

  /**
   * Matching members of the set, from a random place of it on and around, so that each has the same chance to be told; unlisted ones too where members
   * are asked.
   */
  async #matching({ request, criteria }: AdmittedRequest, max: number): Promise<JoinRecord[]> {
    const { registry, random } = this.#c
    const found = new Map<string, JoinRecord>()
    const start = random.bytes(32)
    let cursor: Uint8Array | undefined = start
    let wrapped = false
    for (let page = 0; page < PAGES_MAX && cursor !== undefined && found.size < max; page++) {
      const tags = criteria.tags === undefined ? {} : { tags: [...criteria.tags] }
      const { records, next }: { records: readonly Uint8Array[]; next?: Uint8Array } = await registry.held(
        { verb: 'list', set: 'members', key: request.target, cursor, limit: PAGE, ...tags },
        { unlisted: request.contact ? 'too' : 'left-out' }
      )
      for (const bytes of records) {
        const join = decodeRecord(joinType, bytes)
        const { eid, tags: has, mode, gone } = join.payload
        if (gone === true || found.size >= max) continue
        if (meetsCriteria({ tags: has, mode, reputation: this.#c.reputation(eid) }, criteria)) found.set(toHex(eid), join)
      }
      cursor = next
      if (cursor === undefined && !wrapped) {
        wrapped = true
        cursor = new Uint8Array(0)
      }
    }
    return shuffled(random, [...found.values()])
  }

  async #record({ request, seed }: AdmittedRequest, content: Uint8Array, back: AnswersBack): Promise<void> {
    const { crypto, random } = this.#c
    if (back.isFull) return
    await back.item(await sealItem(crypto, { seed, recipient: request.ephemeral, ephemeralSecret: random.bytes(32), content }))
  }

  /** Each node once, however many of the members it hosts. */
  async #askMembers(admitted: AdmittedRequest, eids: readonly Eid[], back: AnswersBack, signal: AbortSignal): Promise<void> {
    const asked = new Set<string>()
    await Promise.all(
      eids.map(async (eid) => {
        const address = await this.#address(eid, signal)
        if (address === undefined || asked.has(address.peer)) return
        asked.add(address.peer)
        if (address.peer === this.#c.host.peer) await this.#toSelf(admitted, HOPS.member, back, signal)
        else await forward(this.#c, address, admitted, HOPS.member, back, signal)
      })
    )
  }

  async #address(eid: Eid, signal: AbortSignal): Promise<PeerAddress | undefined> {
    try {
      return (await this.#c.locators.resolve(eid, { signal })).address
    } catch (error) {
      if (signal.aborted || error instanceof RookeryError) return undefined
      throw error
    }
  }
}
