import { setTimeout as sleep } from 'node:timers/promises'
import { RookeryError } from '../../errors.ts'
import { systemClock } from '../../platform/clock.ts'
import type { SessionInfo } from '../../sessions/session.ts'
import type { SessionDetails } from '../../sessions/session-details.ts'
import type { Invocation } from '../context.ts'
import { detailLines, SESSION_HEAD, sessionRow } from './session-show.ts'

/** How often the node is asked; a terminal is drawn again at every second of them, changed or not. */
const POLL_MS = 500
/** What moves by itself: a line for a program, or a draw into a pipe, needs more than that. */
const VOLATILE = new Set(['rttMs', 'ageMs', 'seconds', 'secondsLeft', 'messagesLastMinute'])

/**
 * Shows sessions until Ctrl-C, which is its ordinary end, or until the one that is watched is over. Programs get one JSON object a line, at the start
 * and at every change.
 */
export async function watchSessions(invocation: Invocation, id: string | undefined): Promise<void> {
  const { out, signal } = invocation
  let before: string | undefined
  let polls = 0
  try {
    for (;;) {
      const view = await look(invocation, id, before === undefined)
      const atMs = systemClock.nowMs()
      const sessions = view ?? []
      const now = JSON.stringify(sessions, (key, value) => (VOLATILE.has(key) ? undefined : value))
      const changed = now !== before
      if (changed) out.jsonLine({ atMs, sessions, ...(view === undefined ? { ended: id } : {}) })
      if (view === undefined) {
        out.line(`the session ${id} is over`)
        return
      }
      if (changed || (out.redraws && polls % 2 === 0))
        out.draw(
          id === undefined
            ? out.rows(SESSION_HEAD, view.map(sessionRow))
            : view.flatMap((one) => detailLines(out, one as SessionDetails, atMs))
        )
      before = now
      polls += 1
      await sleep(POLL_MS, undefined, { signal }) // a timer that keeps the process running
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    out.drawn()
  }
}

/** @returns undefined once the session is gone; not at the first look, which then fails */
async function look(invocation: Invocation, id: string | undefined, first: boolean): Promise<SessionInfo[] | undefined> {
  if (id === undefined) return await invocation.call('session.list', {})
  try {
    const details = await invocation.call('session.show', { id })
    return details.state === 'closed' && !first ? undefined : [details]
  } catch (error) {
    if (!first && error instanceof RookeryError && error.code === 'SESSION_UNKNOWN') return undefined
    throw error
  }
}
