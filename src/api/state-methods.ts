import { z } from 'zod'
import { ESE_CHANGES_MAX } from '../../protocol/state/batch.ts'
import type { EseStatus } from '../../protocol/state/replica.ts'
import type { StateInfo } from '../state/state.ts'
import type { Json } from '../tasks/todo.ts'

/** did:key or name of an agent that we hold a session with, or the session's id. */
const peer = z.string().min(1).max(80)
const side = z.enum(['own', 'peer']).default('peer')
const key = z.string().min(1).max(256)
const blob = z.base64('must be base64 (RFC 4648 §4, with padding)')

/** Control methods over the Ephemeral State Endpoints of sessions (protocol/README.md §6). */
export const STATE_PARAMS = {
  'state.peers': z.strictObject({}),
  /** one key, or all */
  'state.get': z.strictObject({ peer, side, key: key.optional() }),
  /** takes effect as a whole; answers when the peer has it, or after `waitMs` */
  'state.set': z.strictObject({
    peer,
    changes: z
      .array(
        z.discriminatedUnion('op', [
          z.strictObject({ op: z.literal('set'), key, value: z.json() }),
          z.strictObject({ op: z.literal('blob'), key, base64: blob }),
          z.strictObject({ op: z.literal('merge'), key, patch: z.json() }),
          z.strictObject({ op: z.literal('patch'), key, patch: z.array(z.json()) }),
          z.strictObject({ op: z.literal('delete'), key })
        ])
      )
      .min(1)
      .max(ESE_CHANGES_MAX),
    /** default 10 s */
    waitMs: z.int().min(0).max(600_000).optional()
  }),
  /** emits one {@link StateChange} after the other until the caller hangs up or the session is over */
  'state.watch': z.strictObject({ peer, side, keys: z.array(key).max(1_024).optional() })
} as const

/** What a key holds: JSON, or a blob in base64. */
export type StateEntry = { key: string } & ({ value: Json } | { base64: string })

export interface StatePeer {
  /** session id */
  id: string
  local: string
  remote: string
  session: 'established' | 'disconnected' | 'closing' | 'closed'
  exclusive: boolean
  own: StateInfo
  peer: StateInfo
}

export type StateChange =
  /** the first: what changes from here on is told */
  | { kind: 'watching'; id: string }
  | ({ kind: 'set' } & StateEntry)
  | { kind: 'delete'; key: string }
  | { kind: 'reset' }
  | { kind: 'status'; status: EseStatus }

export interface StateResults {
  'state.peers': StatePeer[]
  'state.get': { id: string; remote: string; side: 'own' | 'peer'; info: StateInfo; entries: StateEntry[] }
  /** `journaled`: on its way, and not acknowledged by the peer within `waitMs` */
  'state.set': { id: string; remote: string; outcome: 'acknowledged' | 'journaled'; info: StateInfo }
  'state.watch': { id: string; ended: string }
}
