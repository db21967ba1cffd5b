import type { Signer } from '../../protocol/crypto/provider.ts'
import type { WakeWindow } from '../../protocol/delivery/modes.ts'
import type { ReachabilitySetting } from '../../protocol/delivery/reachability.ts'
import { type Eid, eid } from '../../protocol/identity/eid.ts'
import type { AnnounceRecord } from '../../protocol/records/announce.ts'
import type { JoinRecord } from '../../protocol/records/join.ts'
import type { Responder } from '../../protocol/session/responder.ts'
import { derivedBytes } from '../engine/seeds.ts'
import type { PlannedNode } from '../scenario/events.ts'
import { cheapCrypto } from './cheap-crypto.ts'
import type { LookupResult } from './lookup.ts'
import { type Places, RoutingTable } from './routing-table.ts'

/** A message that waits at its receiver. */
export interface Waiting {
  id: number
  from: number
  bytes: number
  expiresAtMs: number
}

/** What one registrar keeps of a space. */
export interface SpaceSet {
  announcements: Map<number, AnnounceRecord>
  joins: Map<number, JoinRecord>
}

/** A modelled node: the state that the product's node has, without its sockets, disk and timers. */
export class ModelNode {
  readonly index: number
  readonly planned: PlannedNode
  readonly table: RoutingTable
  readonly eid: Eid
  readonly signer: Signer
  readonly peerId: Uint8Array
  isUp = false
  reachability: ReachabilitySetting
  /** of hourly_wake */
  window: WakeWindow | undefined
  readonly sets = new Map<string, SpaceSet>()
  readonly queue: Waiting[] = []
  /** messages handed to its agent, so that a second copy is known */
  readonly notified = new Set<number>()
  /** peers whose locator it has read */
  readonly located = new Set<number>()
  /** registrars that it found a moment ago, by key (`src/spaces/recent-registrars.ts`) */
  readonly recent = new Map<string, { found: LookupResult; atMs: number }>()
  /** sessions by peer: `half` before the peer showed a cookie */
  readonly sessions = new Map<number, 'half' | 'whole'>()
  readonly blacklist = new Set<number>()
  responder: Responder<string> | undefined
  /** what the bug `never-forgets` lets grow */
  readonly hoard: number[] = []
  /** rises with each restart, so that timers of an earlier life are void */
  life = 0

  constructor(planned: PlannedNode, places: Places, k: number, seed: number) {
    this.index = planned.index
    this.planned = planned
    this.table = new RoutingTable(places, planned.index, k)
    const secret = derivedBytes(seed, 'agent-key', planned.index)
    const key = cheapCrypto.ed25519.publicKey(secret)
    this.eid = eid(key)
    this.signer = { publicKey: key, sign: (message) => cheapCrypto.ed25519.sign(secret, message) }
    this.peerId = derivedBytes(seed, 'node-key', planned.index)
    this.reachability = { mode: planned.group.reachability }
  }

  /** Entries of everything that a peer can make grow, and the routing table. */
  get entries(): number {
    let held = 0
    for (const { announcements, joins } of this.sets.values()) held += announcements.size + joins.size
    return held + this.queue.length + this.sessions.size + this.blacklist.size + this.hoard.length + this.table.size
  }

  set(key: string): SpaceSet {
    let set = this.sets.get(key)
    if (set === undefined) {
      set = { announcements: new Map(), joins: new Map() }
      this.sets.set(key, set)
    }
    return set
  }
}
