import type { Session } from './session.ts'

/**
 * What other parts of the node put into a session's READY, and take from the peer's (protocol/README.md §6, READY). Asked at every exchange, also of
 * a session that the application does not know yet; everything answers at once, from memory.
 */
export interface ReadyAdditions {
  /** this side came back without the session's ESE values: the peer sends its view of both, and hears of it by the event `resumed` (`eseLost`) */
  eseLost?(session: Session): boolean
  /** in a session with flag GROUP: what follows the heads, from the u8 count on; absent: no group is named */
  groups?(session: Session): Uint8Array
  /**
   * The peer's, before anything else of its READY takes effect. @param bytes - a view: copy what you keep
   * @throws ProtocolError where they cannot be read: VIOLATION
   */
  takeGroups?(session: Session, bytes: Uint8Array): void
}
