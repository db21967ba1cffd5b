/** Rookery as a library: a node in your own process. */

export { REACHABILITY_MODES, type ReachabilityMode, type WakeWindow } from '../protocol/delivery/modes.ts'
export { ProtocolError, type ProtocolErrorCode } from '../protocol/errors.ts'
export { type Did, type Eid, type EidHex, eidFromDid, eidHex, eidToDid } from '../protocol/identity/eid.ts'
export type { ContractMeter, ContractUsage } from '../protocol/session/contract.ts'
export { ITEM_KINDS } from '../protocol/session/items.ts'
export { SFC_SCOPE, type SfcBlock } from '../protocol/session/sfc.ts'
export type { EseValue, EseWrite } from '../protocol/state/batch.ts'
export type { JsonValue } from '../protocol/state/json.ts'
export type { JsonPatchOp } from '../protocol/state/patch.ts'
export type { EseStatus } from '../protocol/state/replica.ts'
export type { SendOutcome } from './a2a/send-message.ts'
export { callControl } from './api/control-client.ts'
export type { AgentView, ControlMethods, NodeStatus } from './api/methods.ts'
export { nodeStatus } from './api/node-status.ts'
export { type LoadedConfig, loadConfig, parseConfig } from './config/load.ts'
export type { Config, ConfigInput } from './config/schema.ts'
export { nodeCrypto } from './crypto/node-crypto.ts'
export type { DrainEvent, DrainReport, QueueBounds, QueueUsage } from './delivery/asleep-queue.ts'
export { type ErrorKind, EXIT_CODES, RookeryError, type RookeryErrorJson } from './errors.ts'
export type { EvidenceService, Standing, StandingView } from './evidence/evidence.ts'
export type { Slashing, StakeLedger } from './evidence/stake-ledger.ts'
export type { Group, GroupChange, GroupMemberView, Groups, GroupView } from './groups/groups.ts'
export type { Everyones, TypedGroup } from './groups/typed-group.ts'
export type { AgentReachability, LocalAgent } from './identity/agent.ts'
export type { AgentAdd } from './identity/agents.ts'
export type { HostedAgent } from './identity/hosted-agent.ts'
export { initDataDir } from './identity/init.ts'
export { createNode, type NodeOverrides, type RookeryNode, startNode } from './node.ts'
export { type Clock, ManualClock, systemClock } from './platform/clock.ts'
export { type Logger, silentLogger } from './platform/logger.ts'
export { createLogger } from './platform/pino-logger.ts'
export { type Random, seededRandom, systemRandom } from './platform/random.ts'
export {
  type AcceptStreamOptions,
  acceptStream,
  BYTE_STREAM_CHANNEL,
  type ByteReader,
  type ByteStreamMode,
  type ByteWriter,
  type HeldBytes,
  type OpenStreamOptions,
  openStream
} from './sessions/byte-channel.ts'
export { type Channel, type ChannelOptions, openChannel } from './sessions/channel.ts'
export type { Inbound, Session, SessionEvent, SessionInfo, SessionManager, SessionOpenOptions } from './sessions/session.ts'
export type { ChannelDetails, ContractDetails, SessionDetails } from './sessions/session-details.ts'
export type { FindQuery, FindResult, LocatorView, MemberView, SpaceView } from './spaces/spaces.ts'
export { SharedState, type ShareLeft } from './state/share.ts'
export type { InputOf, OutputOf, SchemaOf, StandardResult, StandardSchema } from './state/standard-schema.ts'
export type { OwnState, SessionStates, State, StateInfo, WatchOptions } from './state/state.ts'
export type { TypedEvent, TypedOwnState, TypedState } from './state/typed.ts'
export type { StateEvent } from './state/watch.ts'
export type { AgentHandler, HandlerContext, HandlerResult, HandlerSkill, HandlerTask, SideEffects } from './tasks/handler.ts'
export type { Json, JsonObject, Todo, TodoState } from './tasks/todo.ts'
