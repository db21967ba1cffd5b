import { equals } from '../../protocol/bytes.ts'
import { memberContent } from '../../protocol/discovery/answer.ts'
import { meetsCriteria } from '../../protocol/discovery/criteria.ts'
import { gpCoordinate } from '../../protocol/discovery/names.ts'
import { sealItem } from '../../protocol/discovery/sealed-item.ts'
import { eidHex } from '../../protocol/identity/eid.ts'
import type { GpRecord } from '../../protocol/records/gp.ts'
import type { JoinRecord } from '../../protocol/records/join.ts'
import { isMemberKey } from '../../protocol/records/set-entry.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { AnswersBack } from './answers-back.ts'
import type { AdmittedRequest, Asked, DiscoveryComponents } from './components.ts'

/** Answers for the agents of this node that a request means, if they want to: sealed to the request's key, signed inside (protocol/README.md §5). */
export class MemberRole {
  readonly #c: DiscoveryComponents

  constructor(components: DiscoveryComponents) {
    this.#c = components
  }

  async serve(admitted: AdmittedRequest, back: AnswersBack): Promise<void> {
    if (!admitted.request.contact) return
    for (const asked of this.#meant(admitted)) {
      if (back.isFull) return
      if ((await this.#c.policy(asked)) === 'answer') await this.#answer(admitted, asked, back)
    }
  }

  #meant({ request, criteria }: AdmittedRequest): Asked[] {
    const { crypto, joins, points } = this.#c
    const asked = (eid: LocalAgent['eid'], by: { join: JoinRecord } | { point: GpRecord }): Asked[] => {
      const agent = this.#c.agent(eidHex(eid))
      return agent === undefined ? [] : [{ agent, ...by, criteria, difficulty: request.difficulty }]
    }
    // whether its reputation is enough is not for an agent itself to say
    const reputation = criteria.minReputation ?? 0
    return [
      ...joins()
        .filter(({ payload: { dsid, eid } }) => isMemberKey(crypto, request.target, dsid, eid))
        .filter(({ payload: { tags, mode } }) => meetsCriteria({ tags, mode, reputation }, criteria))
        .flatMap((join) => asked(join.payload.eid, { join })),
      ...points()
        .filter(({ payload: { eid, tag } }) => equals(gpCoordinate(crypto, eid, tag), request.target))
        .filter(({ payload: { tag } }) => meetsCriteria({ tags: [tag], reputation }, criteria))
        .flatMap((point) => asked(point.payload.eid, { point }))
    ]
  }

  async #answer({ request, seed }: AdmittedRequest, { agent, join, point }: Asked, back: AnswersBack): Promise<void> {
    const { crypto, random, locators } = this.#c
    const locator = locators.published(agent.eid)
    const content = memberContent(agent.signer, seed, {
      ...(join === undefined ? {} : { join: join.bytes }),
      ...(point === undefined ? {} : { gp: point.bytes }),
      ...(locator === undefined ? {} : { locator: locator.bytes })
    })
    await back.item(await sealItem(crypto, { seed, recipient: request.ephemeral, ephemeralSecret: random.bytes(32), content }))
  }
}
