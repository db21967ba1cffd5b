import type { Check } from '../hostile/world.ts'

/** Raw figures of a run; each list has one entry for each success. */
export interface Measured {
  join: { wanted: number; latenciesMs: number[] }
  discovery: {
    wanted: number
    /** members that a search could find */
    members: number
    latenciesMs: number[]
    hops: number[]
    membersFound: number[]
  }
  sessions: { wanted: number; opened: number; handshakesMs: number[]; roundTripsMs: number[] }
  /** messages, acknowledged as delivered or kept */
  sends?: { wanted: number; acked: number; latenciesMs: number[] }
  /** what was measured against a bound; where there are any, they and the joins decide whether the run succeeded */
  checks?: Check[]
}
