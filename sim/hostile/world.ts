import { type DsId, dsId, parseSpaceName } from '../../protocol/discovery/names.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { Random } from '../../src/platform/random.ts'
import type { FindResult } from '../../src/spaces/spaces.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { drawDistinct, drawInteger } from '../engine/draw.ts'
import { eachOf } from '../engine/each-of.ts'
import type { RealEngine } from '../engine/real-engine.ts'
import type { RunLog } from '../engine/run-log.ts'
import { derivedRandom } from '../engine/seeds.ts'
import type { Measured } from '../run/measured.ts'

const JOINS_AT_ONCE = 8
const SEARCHES_AT_ONCE = 3
/** A search that takes longer counts as one that found nobody. */
const SEARCH_TIMEOUT_MS = 90_000

/** What an attack was measured to do, and the bound that it must not pass. */
export interface Check {
  attack: string
  what: string
  value: number
  is: 'at least' | 'at most' | 'exactly'
  bound: number
  holds: boolean
}

/** A space of honest members, some of whom may have left again. */
export interface OpenSpace {
  readonly name: string
  readonly dsid: DsId
  readonly curator: SimNode
  readonly members: SimNode[]
  readonly left: SimNode[]
}

export interface SearchTally {
  searches: number
  /** those that showed at least one honest member */
  found: number
  /** members and spaces in their output that nobody alive there has signed */
  forged: number
  /** honest members shown, of those there were, over all searches */
  recall: number
  failed: string[]
}

export interface WorldInit {
  engine: RealEngine
  seed: number
  log: RunLog
  measured: Measured
  /** part of the nodes that turn hostile, 0 to 1; or which */
  share: number | readonly number[]
  searches: number
  signal: AbortSignal
}

/** The honest and the hostile nodes of one run, and what the attacks on it came to. Who is hostile follows from the seed. */
export class World {
  readonly engine: RealEngine
  readonly seed: number
  readonly log: RunLog
  readonly measured: Measured
  /** of one measure */
  searches: number
  readonly signal: AbortSignal
  readonly random: Random
  readonly honest: SimNode[]
  readonly hostile: SimNode[]
  readonly checks: Check[] = []
  /** identities of attackers that signed joins of their own: no member that anyone forged */
  readonly ownedByAttackers = new Set<string>()

  constructor({ engine, seed, log, measured, share, searches, signal }: WorldInit) {
    this.engine = engine
    this.seed = seed
    this.log = log
    this.measured = measured
    this.searches = searches
    this.signal = signal
    this.random = derivedRandom(seed, 'hostile')
    // the first node is where all others begin
    this.hostile =
      typeof share === 'number'
        ? drawDistinct(this.random, engine.nodes.slice(1), Math.round(engine.nodes.length * share))
        : engine.nodes.filter(({ index }) => share.includes(index))
    this.honest = engine.nodes.filter((node) => !this.hostile.includes(node))
  }

  /** More of the honest nodes turn: those that no space in `spared` needs. */
  turnMore(share: number, spared: readonly OpenSpace[]): SimNode[] {
    const needed = new Set(spared.flatMap(({ curator, members }) => [curator, ...members]))
    const wanted = Math.round(this.engine.nodes.length * share) - this.hostile.length
    const turned = drawDistinct(
      this.random,
      this.honest.filter((node) => node !== this.engine.nodes[0] && !needed.has(node)),
      wanted
    )
    for (const node of turned) this.honest.splice(this.honest.indexOf(node), 1)
    this.hostile.push(...turned)
    return turned
  }

  check(attack: string, what: string, value: number, is: Check['is'], bound: number): void {
    const holds = is === 'at least' ? value >= bound : is === 'at most' ? value <= bound : value === bound
    this.checks.push({ attack, what, value: Math.round(value * 10_000) / 10_000, is, bound, holds })
  }

  /** Announced by one honest node, joined by `count` others. */
  async open(topic: string, count: number, seeker?: SimNode): Promise<OpenSpace> {
    const name = `org.agentnet/hostile.${topic}@1`
    const [curator, ...members] = drawDistinct(
      this.random,
      this.honest.filter((node) => node !== seeker),
      count + 1
    )
    if (curator === undefined) throw new TypeError('a world has honest nodes')
    const space = { name, dsid: dsId(nodeCrypto, parseSpaceName(name)), curator, members: [], left: [] }
    await curator.node.spaces.announce({ name, curator: curator.agent }, { signal: this.signal })
    await this.join(space, members)
    return space
  }

  async join(space: OpenSpace, nodes: readonly SimNode[]): Promise<void> {
    this.measured.join.wanted += nodes.length
    await eachOf(nodes, JOINS_AT_ONCE, async ({ node, agent, ...rest }) => {
      const startedMs = systemClock.monotonicMs()
      const { stored } = await node.spaces.join({ name: `${space.name}#${space.curator.agent.did}`, agent }, { signal: this.signal })
      if (stored === 0) return this.log.failed('join', rest.index, new Error('no registrar took the join'))
      this.measured.join.latenciesMs.push(systemClock.monotonicMs() - startedMs)
    })
    space.members.push(...nodes)
  }

  async leave(space: OpenSpace, node: SimNode): Promise<void> {
    await node.node.spaces.leave({ name: space.name, agent: node.agent }, { signal: this.signal })
    space.members.splice(space.members.indexOf(node), 1)
    space.left.push(node)
  }

  /** Honest nodes that are not its members search it, as often as the run says. */
  async search(
    space: OpenSpace,
    { pinned = 'no', count = this.searches }: { pinned?: 'yes' | 'no'; count?: number } = {}
  ): Promise<SearchTally> {
    const seekers = this.honest.filter((node) => node !== space.curator && !space.members.includes(node) && !space.left.includes(node))
    const drawn = Array.from({ length: count }, () => seekers[drawInteger(this.random, seekers.length)] as SimNode)
    const tally: SearchTally = { searches: count, found: 0, forged: 0, recall: 0, failed: [] }
    const { discovery } = this.measured
    discovery.wanted += count
    discovery.members = Math.max(discovery.members, space.members.length)
    const name = pinned === 'yes' ? `${space.name}#${space.curator.agent.did}` : space.name
    await eachOf(drawn, SEARCHES_AT_ONCE, async ({ node }) => {
      const startedMs = systemClock.monotonicMs()
      const late = AbortSignal.any([this.signal, AbortSignal.timeout(SEARCH_TIMEOUT_MS)])
      try {
        const result = await node.spaces.find({ name }, { signal: late })
        const honest = this.#judge(space, result, tally)
        tally.recall += honest / (count * Math.max(1, space.members.length))
        if (honest === 0) return void tally.failed.push(`${result.members.length} members, none of them honest`)
        tally.found++
        discovery.latenciesMs.push(systemClock.monotonicMs() - startedMs)
        discovery.hops.push(result.registrars.hops)
        discovery.membersFound.push(honest)
      } catch (error) {
        this.signal.throwIfAborted()
        tally.failed.push(error instanceof Error ? error.message : String(error))
      }
    })
    return tally
  }

  /** @returns honest members shown */
  #judge(space: OpenSpace, { members, spaces }: FindResult, tally: SearchTally): number {
    const nowMs = systemClock.nowMs()
    const honest = new Set<string>(space.members.map(({ agent }) => agent.did))
    const isTrue = (did: string) => honest.has(did) || this.ownedByAttackers.has(did)
    tally.forged += members.filter((one) => !isTrue(one.did) || one.space !== space.name || one.expiresAtMs <= nowMs).length
    tally.forged += spaces.filter(({ curator }) => curator !== space.curator.agent.did && !this.ownedByAttackers.has(curator)).length
    return members.filter(({ did }) => honest.has(did)).length
  }

  /** The two checks that every attack has to pass. */
  checkSearches(attack: string, tally: SearchTally, foundMin: number): void {
    if (tally.found / tally.searches < foundMin) for (const why of tally.failed) this.log.failed(`search, ${attack}`, 0, new Error(why))
    this.check(attack, 'searches that found an honest member', tally.found / tally.searches, 'at least', foundMin)
    this.check(attack, 'forged entries shown', tally.forged, 'exactly', 0)
  }
}
