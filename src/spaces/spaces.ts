import type { ReachabilityMode } from '../../protocol/delivery/modes.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { PeerAddress } from '../net/host.ts'

/** A verified announcement as callers see it. */
export interface SpaceView {
  /** `ns/topic@version` */
  name: string
  dsid: string
  /** did:key */
  curator: string
  description: string
  /** more than one curator is alive and none is pinned or known from before */
  contested: boolean
  expiresAtMs: number
}

/** A verified join of a space, with where it came from. */
export interface MemberView {
  did: string
  space: string
  /** the curator that this member follows */
  curator: string
  tags: string[]
  mode: ReachabilityMode
  joinedAtMs: number
  expiresAtMs: number
  /** PeerIds of the registrars that served it */
  servedBy: string[]
}

export interface FindResult {
  spaces: SpaceView[]
  members: MemberView[]
  /** `hops`: RPCs in a row that the longest of the look-ups for them took */
  registrars: { known: number; asked: number; answered: number; hops: number }
  /** fewer than 10 answers though more registrars are known: something may be missing */
  complete: boolean
  elapsedMs: number
}

export interface FindQuery {
  /** `ns/topic@version`, or `ns/topic` for a topic with all its children (newest live version of each), optional `#did:key:…` */
  name: string
  tags?: string[]
  mode?: ReachabilityMode
  limit?: number
}

export interface PublishOptions {
  signal?: AbortSignal
  /** progress for people: `looking up`, `storing 3 of 20` */
  onProgress?: (text: string) => void
}

/** Discovery spaces: announce, join, find, leave (protocol/README.md §2–§4). Joined and announced spaces are kept on disk and refreshed while the node runs. */
export interface Spaces {
  announce(
    input: { name: string; curator: LocalAgent; description?: string; seeds?: string[] },
    options?: PublishOptions
  ): Promise<SpaceView & { registrars: number; stored: number }>
  /** @throws RookeryError `SPACE_UNKNOWN` when nobody announced it (DS-11), `SPACE_CONTESTED` on a tie */
  join(
    input: { name: string; agent: LocalAgent; tags?: string[] },
    options?: PublishOptions
  ): Promise<MemberView & { registrars: number; stored: number }>
  /** Withdraws a join by tombstone; of a space that the agent curates also the announcement. */
  leave(input: { name: string; agent: LocalAgent }, options?: PublishOptions): Promise<void>
  find(query: FindQuery, options?: PublishOptions): Promise<FindResult>
  /**
   * An agent has another EID: announcements go over by `next` and `prev` (the old record first), joins are made again under the new EID and withdrawn
   * under the old. What was done before is not done twice. @param from - the agent as it was, `to` as it is
   */
  handOver(from: LocalAgent, to: LocalAgent, options?: PublishOptions): Promise<void>
  /** what our own agents announced and joined */
  list(): Promise<{ role: 'curator' | 'member'; agent: string; name: string; dsid: string; refreshedAtMs: number; expiresAtMs: number }[]>
  stop(options?: { withdraw: 'yes' | 'no' }): Promise<void>
}

/** A verified locator as callers see it. */
export interface LocatorView {
  did: string
  address: PeerAddress
  mailboxKey: Uint8Array
  mode: ReachabilityMode
  window?: { periodSec: number; openSec: number; offsetSec: number }
  gen: number
  expiresAtMs: number
}

/** Signed locators of agents in the DHT (protocol/README.md §3). */
export interface Locators {
  /** Signs and stores a new generation for the agent as it is now; refreshed while the node runs. */
  publish(agent: LocalAgent, options?: PublishOptions): Promise<LocatorView>
  /** Tombstone. */
  withdraw(agent: LocalAgent, options?: PublishOptions): Promise<void>
  /** Local agents answer from here; others from the DHT, the highest generation; cached until it expires. @throws RookeryError `AGENT_UNKNOWN` */
  resolve(eid: Eid, options?: PublishOptions & { fresh?: boolean }): Promise<LocatorView>
  /** Called when a look-up brings a higher generation of another node's agent than was known. Returns the unsubscriber. */
  onNewer(listener: (eid: Eid, view: LocatorView) => void): () => void
  stop(options?: { withdraw: 'yes' | 'no' }): Promise<void>
}
