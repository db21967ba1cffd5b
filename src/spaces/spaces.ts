import type { ReachabilityMode } from '../../protocol/delivery/modes.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { JoinRecord } from '../../protocol/records/join.ts'
import type { LocatorRecord } from '../../protocol/records/locator.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { PeerAddress } from '../net/host.ts'
import type { UpkeepStats } from './refresher.ts'

/**
 * Why a curator is followed: the name pins it; it is an agent of this node; it was the first that this node accepted, or the owner said so; nothing is known
 * and it is the only one alive; or several are alive and most registrars hold this one.
 */
export type CuratorTrust = 'pinned' | 'own' | 'remembered' | 'first-seen' | 'contested'

/** A verified announcement as callers see it. */
export interface SpaceView {
  /** `ns/topic@version` */
  name: string
  dsid: string
  /** did:key */
  curator: string
  description: string
  trust: CuratorTrust
  /** more than one curator is alive and none is pinned or known from before */
  contested: boolean
  /** where it comes from: registrars, or the DHT alone where no registrar has it */
  known: 'registry' | 'dht'
  /** how many of the registrars that answered hold it */
  heldBy: number
  /** over how many keys its members are spread */
  shards: number
  announcedAtMs: number
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
  /** when it was signed last: how fresh it is */
  joinedAtMs: number
  expiresAtMs: number
  /** PeerIds of the registrars that served it */
  servedBy: string[]
  /** `local`: this node alone holds it so far */
  known: 'registry' | 'local'
}

export interface FindResult {
  spaces: SpaceView[]
  members: MemberView[]
  /** live joins left out because the curator pruned them */
  pruned: number
  /** with `page`: the cursor of the next one; absent at the end */
  next?: string
  /** `hops`: RPCs in a row that the longest of the look-ups for them took */
  registrars: { known: number; asked: number; answered: number; hops: number }
  /** fewer than 10 answers though more registrars are known, or more than a search holds: something may be missing */
  complete: boolean
  elapsedMs: number
}

export interface FindQuery {
  /** `ns/topic@version`, or `ns/topic` for a topic with all its children (newest live version of each), optional `#did:key:…` */
  name: string
  /** all of these */
  tags?: string[]
  mode?: ReachabilityMode
  /** enough: the search stops early, with any that many */
  limit?: number
  /**
   * So many at a time, in the order of space and DID. `after`: the cursor `next` of the page before; whoever is a member throughout is on
   * exactly one page, however others come and go.
   */
  page?: { size: number; after?: string }
}

/** One curator's word on a space, whether it is followed or not. */
export interface AnnouncementView {
  curator: string
  version: number
  state: 'live' | 'withdrawn' | 'handed-over'
  /** curator and version that it points to: its heir or the version that follows */
  next?: { curator: string; version: number }
  prev?: { curator: string; version: number }
  description: string
  shards: number
  policy: string
  seeds: string[]
  heldBy: number
  announcedAtMs: number
  expiresAtMs: number
}

/** Everything that is known of one space. */
export interface SpaceDetails {
  name: string
  dsid: string
  /** whom this node follows, undefined when there is nobody to follow */
  curator?: string
  trust: CuratorTrust | 'tie' | 'none'
  contested: boolean
  /** the curator that was accepted first and is kept on disk */
  remembered?: string
  /** every curator's announcement of this very version */
  announcements: AnnouncementView[]
  /** every version of the topic, the highest first */
  versions: AnnouncementView[]
  /** what follows it: the version that its curator went on to */
  movedToVersion?: number
  shards: number
  members: number
  pruned: number
  /** registrars as in a search; `complete` of the count */
  registrars: FindResult['registrars']
  complete: boolean
  /** the roles of our own agents in it */
  ours: { role: 'curator' | 'member'; agent: string }[]
}

/** A record of ours that was put out, and at how many registrars. */
export interface PutCounts {
  registrars: number
  stored: number
}

export interface HandOverView extends SpaceView, PutCounts {
  /** `offered`: the other has to announce the space to take it; `done`: it is an agent of this node and has; `kept`: the offer is taken back */
  state: 'offered' | 'done' | 'kept'
  to?: string
}

export interface PruneView extends PutCounts {
  space: string
  member: string
  /** Unix ms; past: the member is shown again */
  untilMs: number
}

/** What an agent of ours announced or joined. */
export interface OwnSpaceView {
  role: 'curator' | 'member'
  agent: string
  name: string
  dsid: string
  /** a member: whom it follows */
  curator: string
  shards: number
  refreshedAtMs: number
  expiresAtMs: number
  /** a member: whether listings show it */
  listing: 'listed' | 'unlisted'
  /** what the last refresh found of a member's space; `unchecked` before the first */
  space: 'announced' | 'gone' | 'unchecked'
  /** the curator went on to this version; joining it is the agent's own choice */
  movedToVersion?: number
  /** a curator offers the space to this one */
  offeredTo?: string
}

export interface JoinInput {
  name: string
  agent: LocalAgent
  tags?: string[]
  /** `unlisted`: in no search but anonymous ones, which the agent answers itself or not; default `listed` */
  listing?: 'listed' | 'unlisted'
}

export interface PublishOptions {
  signal?: AbortSignal
  /** progress for people: `looking up`, `storing 3 of 20` */
  onProgress?: (text: string) => void
}

/** Discovery spaces (protocol/README.md §2–§4). What is announced, joined and pruned is kept on disk and refreshed while the node runs. */
export interface Spaces {
  /**
   * Announces a space, or says it anew; takes it over where its curator offers it to this one.
   * @param input.shards - for a space that is known to be big: as many parts at least; otherwise the node doubles them as the space grows
   * @throws RookeryError `SPACE_VERSION` for a version below one known (DS-04), `SPACE_HANDED_OVER`, `SPACE_PIN`, …
   */
  announce(
    input: { name: string; curator: LocalAgent; description?: string; seeds?: string[]; shards?: number },
    options?: PublishOptions
  ): Promise<SpaceView & PutCounts>
  /** Changes what is given of an own announcement and keeps the rest. @throws RookeryError `SPACE_NOT_CURATED` */
  update(
    input: { name: string; curator: LocalAgent; description?: string; seeds?: string[] },
    options?: PublishOptions
  ): Promise<SpaceView & PutCounts>
  /** Offers a space to another curator, or takes the offer back. @throws RookeryError `SPACE_NOT_CURATED` */
  handOverTo(input: { name: string; curator: LocalAgent; to: Eid | 'nobody' }, options?: PublishOptions): Promise<HandOverView>
  /** Withdraws an announcement. @throws RookeryError `SPACE_NOT_CURATED` */
  tombstone(input: { name: string; curator: LocalAgent }, options?: PublishOptions): Promise<void>
  /** @throws RookeryError `SPACE_UNKNOWN` when nobody announced it (DS-11), `SPACE_CONTESTED` on a tie */
  join(input: JoinInput, options?: PublishOptions): Promise<MemberView & PutCounts>
  /** Withdraws a join by tombstone; of a space that the agent curates also the announcement. */
  leave(input: { name: string; agent: LocalAgent }, options?: PublishOptions): Promise<void>
  /**
   * As its curator hides a member from listings until `untilMs`, by default for a day; `shown` shows it again.
   * @throws RookeryError `SPACE_NOT_CURATED`
   */
  prune(input: { name: string; curator: LocalAgent; member: Eid; untilMs?: number | 'shown' }, options?: PublishOptions): Promise<PruneView>
  find(query: FindQuery, options?: PublishOptions): Promise<FindResult>
  /** Counts the members; with a name that pins a curator, from its point of view. */
  show(name: string, options?: PublishOptions): Promise<SpaceDetails>
  /** Whom to follow from now on, by the owner's word; `nobody`: the next one accepted is the first again. */
  trust(input: { name: string; curator: Eid | 'nobody' }): Promise<void>
  /**
   * An agent has another EID: announcements go over by `next` and `prev` (the old record first), joins are made again under the new EID and withdrawn
   * under the old. What was done before is not done twice. @param from - the agent as it was, `to` as it is
   */
  handOver(from: LocalAgent, to: LocalAgent, options?: PublishOptions): Promise<void>
  /** what our own agents announced and joined */
  list(): Promise<OwnSpaceView[]>
  /** How many there are in {@link list}, by role. */
  counts(): { curator: number; member: number }
  /** How it stands with the refreshing of them. */
  upkeep(): UpkeepStats
  /** The live joins of our own agents, as they were signed last. */
  joins(): JoinRecord[]
  stop(options?: { withdraw: 'yes' | 'no' }): Promise<void>
}

/** A verified locator as callers see it. */
export interface LocatorView {
  did: string
  address: PeerAddress
  mailboxKey: Uint8Array
  mode: ReachabilityMode
  window?: { periodSec: number; openSec: number; offsetSec: number }
  /** DIDs of agents on other nodes that hold mail for it while its host is away; absent: none */
  keepers?: string[]
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
  /** What an agent of ours published last, while it lives. */
  published(eid: Eid): LocatorRecord | undefined
  /** Takes a verified locator that came by another way than the DHT, such as an anonymous answer. */
  learn(record: LocatorRecord): void
  /** Called when a look-up brings a higher generation of another node's agent than was known. Returns the unsubscriber. */
  onNewer(listener: (eid: Eid, view: LocatorView) => void): () => void
  stop(options?: { withdraw: 'yes' | 'no' }): Promise<void>
}
