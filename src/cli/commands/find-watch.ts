import { setTimeout as sleep } from 'node:timers/promises'
import { RookeryError } from '../../errors.ts'
import { systemClock } from '../../platform/clock.ts'
import { type FindChange, findChanges, type KnownMembers } from '../../spaces/find-changes.ts'
import type { FindResult } from '../../spaces/spaces.ts'
import type { Invocation } from '../context.ts'
import { counted, type Output } from '../output.ts'
import { MEMBER_HEAD, memberRow } from './find-text.ts'

const EVERY_MS_MIN = 1_000
const SIGNS = { added: '+', removed: '-', changed: '~' } as const
/** the node is gone: nothing to watch any longer */
const GONE = new Set(['NODE_NOT_RUNNING', 'CONTROL_LOST', 'CONTROL_DENIED'])

/**
 * Searches again and again until Ctrl-C, which is its ordinary end. On a terminal the table is drawn anew; elsewhere a line tells each change, and
 * with --json one object: first `listed` with all members, then `added`, `removed` and `changed`.
 */
export async function watchFind(invocation: Invocation, search: () => Promise<FindResult>, everyMs: number): Promise<undefined> {
  if (everyMs < EVERY_MS_MIN) {
    throw new RookeryError('EVERY_INVALID', 'a search is made at most once a second', {
      kind: 'usage',
      field: '--every',
      value: `${everyMs}ms`,
      remedy: 'give 1s or more'
    })
  }
  const { out, signal } = invocation
  let known: KnownMembers | undefined
  try {
    for (;;) {
      try {
        const result = await search()
        const { changes, now } = findChanges(known ?? new Map(), result, systemClock.nowMs())
        if (known === undefined) tellList(out, result)
        else for (const change of changes) tell(out, change)
        if (out.redraws) out.draw(view(out, now, result))
        known = now
      } catch (error) {
        if (signal.aborted || known === undefined || !(error instanceof RookeryError) || GONE.has(error.code)) throw error
        out.note(`${error.code}: ${error.message}; searching on`)
      }
      await sleep(everyMs, undefined, { signal }) // a timer that keeps the process running
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    out.drawn()
  }
  return undefined
}

function tellList(out: Output, result: FindResult): void {
  const atMs = systemClock.nowMs()
  out.jsonLine({ event: 'listed', atMs, ...result })
  if (out.json || out.redraws) return
  for (const member of result.members) out.line(lineOf({ event: 'added', member }, atMs))
  out.note(`${counted(result.members.length, 'agent')}; watching until Ctrl-C`)
}

function tell(out: Output, change: FindChange): void {
  const atMs = systemClock.nowMs()
  out.jsonLine({ ...change, atMs })
  if (!out.redraws) out.line(lineOf(change, atMs))
}

function lineOf({ event, member }: FindChange, nowMs: number): string {
  return `${SIGNS[event]} ${memberRow(member, nowMs).slice(0, 4).join('  ')}`.trimEnd()
}

function view(out: Output, now: KnownMembers, { complete, registrars }: FindResult): string[] {
  const nowMs = systemClock.nowMs()
  return [
    ...out.rows(
      MEMBER_HEAD,
      [...now.values()].map((member) => memberRow(member, nowMs))
    ),
    `${counted(now.size, 'agent')}, ${registrars.answered} of ${counted(registrars.known, 'registrar')}${complete ? '' : ', incomplete'}; Ctrl-C ends`
  ]
}
