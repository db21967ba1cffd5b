import type { CryptoProvider } from '../protocol/crypto/provider.ts'
import type { Config } from './config/schema.ts'
import type { ClockGuard } from './delivery/clock-guard.ts'
import type { KeeperStore } from './delivery/keeper-store.ts'
import type { LevelAsleepQueue } from './delivery/level-asleep-queue.ts'
import type { Outbox } from './delivery/outbox.ts'
import type { OutgoingObjects } from './delivery/outgoing.ts'
import type { ReplayCache } from './delivery/replay-cache.ts'
import type { Discovery } from './discovery/create-discovery.ts'
import type { ExecutionContracts } from './ecc/execution-contracts.ts'
import type { EvidenceService } from './evidence/evidence.ts'
import type { Friends } from './friends/friends.ts'
import type { Access } from './grants/access.ts'
import type { Grants } from './grants/grants.ts'
import type { SendBuckets } from './grants/send-buckets.ts'
import type { Groups } from './groups/groups.ts'
import type { Agents } from './identity/agents.ts'
import type { NodeKey } from './identity/peer-id.ts'
import type { Successions } from './identity/successions.ts'
import type { LocalPoints } from './local/local-points.ts'
import type { Host } from './net/host.ts'
import type { Observed } from './ops/observed.ts'
import type { Clock } from './platform/clock.ts'
import type { Closing } from './platform/closing.ts'
import type { Logger } from './platform/logger.ts'
import type { Random } from './platform/random.ts'
import type { Tracer } from './platform/tracer.ts'
import type { NodePoints } from './points/create-points.ts'
import type { NodePush } from './push/node-push.ts'
import type { RunningSessionManager } from './sessions/create-session-manager.ts'
import type { MailRecords } from './spaces/mail-records.ts'
import type { Registry } from './spaces/registry.ts'
import type { Locators, Spaces } from './spaces/spaces.ts'
import type { Store } from './store/store.ts'
import type { LevelTodos } from './tasks/level-todos.ts'

/** What every part of a node is handed. */
export interface Base {
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
}

/** What the start opened, for the node to hold. */
export interface NodeParts extends Base {
  store: Store
  config: Config
  key: NodeKey
  agents: Agents
  host: Host
  registry: Registry
  locators: Locators
  mailRecords: MailRecords
  spaces: Spaces
  sessions: RunningSessionManager
  groups: Groups
  discovery: Discovery
  points: NodePoints
  /** undefined where they are off */
  localPoints: LocalPoints | undefined
  evidence: EvidenceService
  successions: Successions
  grants: Grants
  buckets: SendBuckets
  access: Access
  /** friend requests, ours and of others */
  friends: Friends
  todos: LevelTodos
  /** under which edge-cloud contracts our agents execute */
  contracts: ExecutionContracts
  queue: LevelAsleepQueue
  clockGuard: ClockGuard
  replay: ReplayCache
  outgoing: OutgoingObjects
  outbox: Outbox
  /** undefined where this node keeps for nobody */
  keeper: KeeperStore | undefined
  /** undefined where push notifications are off */
  push: NodePush | undefined
  /** undefined where nothing is measured */
  observed: Observed | undefined
  /** spans of what is done; one that does nothing where traces are off */
  tracer: Tracer
  closing: Closing
  publishing: 'automatic' | 'on-demand'
}
