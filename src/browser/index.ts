/** Rookery for pages: a node that dials out of a browser (docs/browser.md). */

import './no-eval.ts'

export { nobleCrypto } from '../../protocol/crypto/noble.ts'
export { REACHABILITY_MODES, type ReachabilityMode } from '../../protocol/delivery/modes.ts'
export { gpCoordinate } from '../../protocol/discovery/names.ts'
export { ProtocolError, type ProtocolErrorCode } from '../../protocol/errors.ts'
export { type Did, type Eid, type EidHex, eidFromDid, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
export { ITEM_KINDS } from '../../protocol/session/items.ts'
export type { SendOutcome } from '../a2a/send-message.ts'
export { type ErrorKind, RookeryError, type RookeryErrorJson } from '../errors.ts'
export type { Logger } from '../platform/logger.ts'
export {
  type AcceptStreamOptions,
  acceptStream,
  type ByteReader,
  type ByteWriter,
  type OpenStreamOptions,
  openStream
} from '../sessions/byte-channel.ts'
export { type Channel, type ChannelOptions, openChannel } from '../sessions/channel.ts'
export type { Inbound, Session, SessionEvent, SessionInfo, SessionManager } from '../sessions/session.ts'
export type { FindQuery, FindResult, LocatorView, MemberView, SpaceView } from '../spaces/spaces.ts'
export { BrowserNode, type BrowserNodeInit, type BrowserNodeStatus, createBrowserNode } from './browser-node.ts'
