import type { PointAccess } from '../../protocol/discovery/point-messages.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { GpRecord } from '../../protocol/records/gp.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { PublishOptions } from '../spaces/spaces.ts'
import type { Json } from '../tasks/todo.ts'

/** A global point as callers see it. */
export interface PointView {
  did: string
  tag: string
  /** GP coordinate, hex */
  coordinate: string
  access: string
  gen: number
  expiresAtMs: number
}

/** One of our own, with what only its owner knows. */
export interface OwnPointView extends PointView {
  agent: string
  value: Json
  /** DIDs that may read it, with `trust` */
  trust: string[]
  /** grants in force, each by the first digits of its hash, with when it ends */
  grants: { id: string; expiresAtMs: number }[]
}

export interface PointInput {
  agent: LocalAgent
  /** 1 to 64 printable ASCII characters */
  tag: string
  access: PointAccess
  /** what those may read who may; at most 16 KiB of JSON */
  value: Json
  /** with `trust` */
  trust?: readonly Eid[]
}

/** Global points: endpoints of agents that others find by EID and tag and read over a session (protocol/README.md §5). */
export interface Points {
  /** Makes or changes a point and puts its record into the DHT; kept on disk and alive while the node runs. */
  register(input: PointInput, options?: PublishOptions): Promise<OwnPointView & { stored: number; asked: number }>
  /** Takes it back by tombstone. @throws RookeryError `POINT_UNKNOWN` */
  remove(of: { agent: LocalAgent; tag: string }, options?: PublishOptions): Promise<void>
  /** @returns the secret, 32 bytes; it is stored hashed and shown this once. @throws RookeryError `POINT_UNKNOWN`, `POINT_GRANTS_TOO_MANY` */
  grant(of: { agent: LocalAgent; tag: string }, input: { ttlMs: number }): Promise<Uint8Array>
  /** Ends a grant at once. @param id - as {@link OwnPointView.grants} shows it */
  revoke(of: { agent: LocalAgent; tag: string }, id: string): Promise<void>
  list(): OwnPointView[]
  /** The verified record with the highest generation. @throws RookeryError `POINT_UNKNOWN` */
  resolve(of: { eid: Eid; tag: string }, options?: PublishOptions): Promise<PointView>
  /**
   * Opens a session and asks the owner.
   * @throws RookeryError `POINT_DENIED`, `POINT_UNKNOWN`, `POINT_TIMEOUT`, those of the session
   */
  read(of: { from: LocalAgent; eid: Eid; tag: string; grant?: Uint8Array }, options?: PublishOptions): Promise<Json>
  /** live records of our own agents */
  records(): GpRecord[]
  /** An agent has another EID: its points are made again under it and taken back under the old one. */
  handOver(from: LocalAgent, to: LocalAgent, options?: PublishOptions): Promise<void>
  stop(): Promise<void>
}
