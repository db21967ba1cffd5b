import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { Criteria } from '../../protocol/discovery/criteria.ts'
import type { DiscoveryRequest } from '../../protocol/discovery/request.ts'
import type { WorkSeed } from '../../protocol/discovery/work.ts'
import type { Eid, EidHex } from '../../protocol/identity/eid.ts'
import type { GpRecord } from '../../protocol/records/gp.ts'
import type { JoinRecord } from '../../protocol/records/join.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Host } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { Registry } from '../spaces/registry.ts'
import type { Locators } from '../spaces/spaces.ts'
import type { WorkSolver } from '../work/work-solver.ts'
import type { AnswersBack } from './answers-back.ts'

/** What an agent of this node is asked before it answers; the requester is unknown by design. */
export interface Asked {
  readonly agent: LocalAgent
  /** by which of its records the request found it */
  readonly join?: JoinRecord
  readonly point?: GpRecord
  readonly criteria: Criteria
  /** bits of work that the request has */
  readonly difficulty: number
}

/** Whether an agent answers (AD-07). Silence is always allowed and looks like absence. */
export type AnswerPolicy = (asked: Asked) => 'answer' | 'silent' | Promise<'answer' | 'silent'>

export interface DiscoveryComponents {
  host: Host
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
  solver: Pick<WorkSolver, 'solve'>
  registry: Pick<Registry, 'registrars' | 'held'>
  /** registrars of a key: as many of our own table count as such, without a look-up */
  registrarsMax: number
  locators: Pick<Locators, 'resolve' | 'published' | 'learn'>
  /** live joins of our own agents */
  joins(): JoinRecord[]
  /** live points of our own agents */
  points(): GpRecord[]
  agent(hex: EidHex): LocalAgent | undefined
  /** 0 to 100, by what this node knows itself */
  reputation(eid: Eid): number
  policy: AnswerPolicy
}

/** A request that was admitted: what every role works on. */
export interface AdmittedRequest {
  /** the 120 bytes as they arrived, a copy */
  readonly header: Uint8Array
  readonly criteriaBytes: Uint8Array
  readonly request: DiscoveryRequest
  readonly criteria: Criteria
  readonly seed: WorkSeed
  /** PeerId of the hop before, undefined where this node hands it to itself */
  readonly from: string | undefined
}

/** Plays a role of this node's own for a request that it would else send to itself, with so many hops left. */
export type ToSelf = (admitted: AdmittedRequest, hops: number, back: AnswersBack, signal: AbortSignal) => Promise<void>
