import { stripVTControlCharacters } from 'node:util'
import type { SessionLine, VitalsResult } from '../api/operator-methods.ts'
import { age, bytesText, type Output, printable } from './output.ts'

export const TOP_SORTS = ['active', 'sent', 'received', 'unacked', 'agent'] as const
export type TopSort = (typeof TOP_SORTS)[number]

/** What a person chose with the keys. */
export interface TopChoice {
  sort: TopSort
  /** the session that is marked, from 0 */
  at: number
}

export interface TopRates {
  /** a second, over the time between the two readings */
  created: number
  ended: number
  sentBytes: number
  sentMessages: number
}

type Paint = Output['paint']

/** What rose between two readings of the same process, a second; undefined where there is nothing to compare. */
export function ratesOf(before: VitalsResult | undefined, now: VitalsResult): TopRates | undefined {
  if (before === undefined || before.node.pid !== now.node.pid || before.monotonicMs >= now.monotonicMs) return undefined
  const seconds = (now.monotonicMs - before.monotonicMs) / 1_000
  const rate = (from: number, to: number) => Math.max(0, to - from) / seconds
  return {
    created: rate(before.tasks.created, now.tasks.created),
    ended: rate(before.tasks.ended, now.tasks.ended),
    sentBytes: rate(before.sent?.bytes ?? 0, now.sent?.bytes ?? 0),
    sentMessages: rate(before.sent?.messages ?? 0, now.sent?.messages ?? 0)
  }
}

export function sorted(sessions: readonly SessionLine[], sort: TopSort): SessionLine[] {
  const by: Record<TopSort, (a: SessionLine, b: SessionLine) => number> = {
    active: (a, b) => b.activeAtMs - a.activeAtMs,
    sent: (a, b) => Number(BigInt(b.txSeq) - BigInt(a.txSeq)),
    received: (a, b) => Number(BigInt(b.rxSeq) - BigInt(a.rxSeq)),
    unacked: (a, b) => b.unacked - a.unacked,
    agent: (a, b) => a.local.localeCompare(b.local) || a.remote.localeCompare(b.remote)
  }
  return [...sessions].sort((a, b) => by[sort](a, b) || a.id.localeCompare(b.id))
}

/**
 * The view as lines, each at most `columns` wide and `rows` of them. Pure: what it shows is in its arguments.
 * @param size - `rows` absent: as many as it takes, as into a pipe
 */
export function topLines(
  vitals: VitalsResult,
  rates: TopRates | undefined,
  { paint, columns, rows, choice }: { paint: Paint; columns: number; rows?: number; choice: TopChoice }
): string[] {
  const { tasks, memory, eventLoop, sessions, queued, outbox } = vitals
  const of = tasks.byState
  const perSecond = (value: number | undefined) => (value === undefined ? '-' : value.toFixed(1))
  const label = (text: string) => paint.dim(text.padEnd(10))
  const peers = vitals.peers === 0 ? paint.yellow('0 peers, isolated') : `${vitals.peers} ${vitals.peers === 1 ? 'peer' : 'peers'}`
  const head = [
    `${paint.bold('rookery top')}  ${shortened(vitals.node.peer)}  v${vitals.node.version}  pid ${vitals.node.pid}  up ${age(vitals.uptimeMs)}`,
    '',
    `${label('network')}${peers}, ${vitals.routingTableSize} in the routing table${vitals.sent === undefined ? '' : `, sent ${rates === undefined ? '-' : bytesText(Math.round(rates.sentBytes))}/s, ${bytesText(vitals.sent.bytes)} in all`}`,
    `${label('sessions')}${paint.green(`${sessions.live} live`)}${sessions.disconnected === 0 ? '' : paint.yellow(`, ${sessions.disconnected} disconnected`)}`,
    `${label('tasks')}${of.pending} waiting, ${of.claimed} working, ${of['input-required'] + of['auth-required']} need an answer, ${of.done} done, ${of.failed === 0 ? '0 failed' : paint.red(`${of.failed} failed`)}`,
    `${label('')}${perSecond(rates?.created)} new/s, ${perSecond(rates?.ended)} ended/s; ${tasks.created} new and ${tasks.ended} ended since the start`,
    `${label('queues')}${queued.messages} in queues (${bytesText(queued.bytes)}), ${outbox.waiting} of ${outbox.messages} in the outbox not delivered`,
    `${label('process')}${gauge(vitals.cpu, paint)} ${Math.round(vitals.cpu * 100)} % CPU, ${bytesText(memory.rssBytes)} memory (${bytesText(memory.heapUsedBytes)} heap)`,
    `${label('loop')}${gauge(eventLoop.utilization, paint)} ${Math.round(eventLoop.utilization * 100)} % busy, delay ${eventLoop.meanMs} ms mean, ${eventLoop.p99Ms} ms p99, ${eventLoop.maxMs} ms max`
  ]
  const agents = [
    '',
    ...table(
      paint,
      ['AGENT', 'STATE', 'MODE', 'HANDLER', 'QUEUE'],
      vitals.agents.map((one) => [
        one.name,
        one.now === 'accepts' ? 'takes work' : 'asleep',
        one.mode,
        one.handler.split('/').at(-1) ?? '',
        `${one.queue.messages} (${bytesText(one.queue.bytes)})`
      ])
    )
  ]
  const list = sorted(vitals.sessionList, choice.sort)
  const sessionTable = [
    '',
    ...(list.length === 0
      ? [paint.dim('no session')]
      : table(
          paint,
          ['SESSION', 'OURS', 'THEIRS', 'STATE', 'SENT', 'RECEIVED', 'OPEN', 'RESUMED', 'ACTIVE'],
          list.map((one) => [
            one.id.slice(0, 8),
            shortened(one.local),
            shortened(one.remote),
            one.state,
            one.txSeq,
            one.rxSeq,
            String(one.unacked),
            String(one.resumes),
            `${age(vitals.atMs - one.activeAtMs)} ago`
          ]),
          rows === undefined ? -1 : Math.min(choice.at, list.length - 1)
        ))
  ]
  if (rows === undefined) return [...head, ...agents, ...sessionTable].map((line) => cut(line, columns))
  const foot = paint.dim(`q quit   s sort (${choice.sort})   ↑↓ mark   every second`)
  const room = Math.max(0, rows - 1)
  const agentRows = fitted(agents, Math.max(3, Math.floor((room - head.length) / 2)), paint)
  const sessionRows = fitted(sessionTable, Math.max(0, room - head.length - agentRows.length), paint, choice.at)
  return [...[...head, ...agentRows, ...sessionRows].slice(0, room), foot].map((line) => cut(line, columns))
}

/** Rows of a table that starts with an empty line and its head: those around `at`, and how many are left out. */
function fitted(lines: string[], max: number, paint: Paint, at = 0): string[] {
  if (lines.length <= max) return lines
  const fixed = lines.slice(0, 2)
  const space = max - fixed.length - 1
  if (space < 1) return lines.slice(0, max)
  const rest = lines.slice(2)
  const from = Math.min(Math.max(0, at - space + 1), rest.length - space)
  return [...fixed, ...rest.slice(from, from + space), paint.dim(`… ${rest.length - space} more`)]
}

function table(paint: Paint, head: readonly string[], given: readonly string[][], marked = -1): string[] {
  const rows = given.map((row) => row.map((cell) => printable(cell).replaceAll(/\s+/g, ' ')))
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => (row[i] ?? '').length)))
  const format = (row: readonly string[]) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd()
  return [paint.bold(format(head)), ...rows.map((row, i) => (i === marked ? paint.inverse(format(row)) : format(row)))]
}

function gauge(share: number, paint: Paint): string {
  const width = 10
  const full = Math.min(width, Math.round(share * width))
  const bar = `${'|'.repeat(full)}${'.'.repeat(width - full)}`
  return `[${share > 0.8 ? paint.red(bar) : share > 0.5 ? paint.yellow(bar) : paint.green(bar)}]`
}

function shortened(name: string): string {
  const bare = name.replace(/^did:key:/, '')
  return bare.length > 17 ? `${bare.slice(0, 8)}…${bare.slice(-6)}` : bare
}

/** At most so many characters: where one is too long, its colours go with the rest. */
function cut(line: string, columns: number): string {
  const plain = stripVTControlCharacters(line)
  return plain.length <= columns ? line : `${plain.slice(0, Math.max(0, columns - 1))}…`
}
