import type { EpochEnd } from './epoch-owner.ts'

/** What a TEARDOWN says that leaves the session as it is: the exchange was refused, not the session. */
const TRANSIENT: ReadonlySet<string> = new Set(['superseded', 'capacity', 'policy', 'shutdown'])

/** Whether an epoch's end is the session's. */
export function endsSession(end: EpochEnd, session: { opened: boolean; wasReady: boolean; hasUnacked: boolean }): boolean {
  if (!session.opened) return true // it never came about
  if (end.lost) return false
  if (end.reason === 'unanswered') return !session.hasUnacked
  if (end.reason === 'shutdown') return session.wasReady && end.by === 'local'
  return !TRANSIENT.has(end.reason)
}

export function whyOf(end: EpochEnd | undefined): { error?: string } {
  return end?.error === undefined ? {} : { error: end.error.message }
}
