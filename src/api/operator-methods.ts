import { z } from 'zod'
import type { NodeVitals } from '../ops/vitals.ts'
import type { SessionInfo } from '../sessions/session.ts'
import type { AgentView } from './methods.ts'

/** Control methods for who watches a node: `rookery top` and the dashboard. */
export const OPERATOR_PARAMS = {
  vitals: z.strictObject({}),
  /** a one-time address of the dashboard: whoever opens it first, within two minutes, is signed in */
  'dashboard.open': z.strictObject({})
} as const

/** Sessions that `vitals` tells of, the most recently used first. */
export const VITALS_SESSIONS_MAX = 100

export type SessionLine = Pick<
  SessionInfo,
  'id' | 'local' | 'remote' | 'state' | 'transport' | 'txSeq' | 'rxSeq' | 'unacked' | 'resumes' | 'openedAtMs' | 'activeAtMs'
>

export interface VitalsResult extends NodeVitals {
  node: { peer: string; version: string; pid: number }
  agents: (Pick<AgentView, 'name' | 'mode' | 'handler'> & {
    now: AgentView['reachable']['now']
    queue: { messages: number; bytes: number }
  })[]
  sessionList: SessionLine[]
}

export interface OperatorResults {
  vitals: VitalsResult
  'dashboard.open': { url: string; expiresAtMs: number }
}
