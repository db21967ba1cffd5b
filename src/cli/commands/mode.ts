import { Argument, Option } from 'commander'
import { MODE_NAMES, MODE_WORDS, modeOf, type ReachabilityMode } from '../../../protocol/delivery/modes.ts'
import { isOpen, nextOpeningMs, WAKE_OPEN_DEFAULT_SEC, WAKE_PERIOD_DEFAULT_SEC } from '../../../protocol/delivery/reachability.ts'
import type { AgentView, ControlParams } from '../../api/methods.ts'
import type { RegisterCommand } from '../context.ts'
import { age, type Output } from '../output.ts'
import { durationMs, moment } from '../values.ts'

interface SetOptions {
  agent?: string
  period?: number
  open?: number
  offset?: number
  until?: number
  queueing?: 'on' | 'off'
}

export const registerMode: RegisterCommand = (program, run) => {
  const mode = program
    .command('mode')
    .description('when agents take work, and whether messages are kept for them at other times')
    .addHelpText('after', '\nExample:\n  rookery mode')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const agents = await invocation.call('agent.list', {})
        invocation.out.result(agents, () => {
          if (agents.length === 0) invocation.out.line('no agents yet: rookery agent add NAME')
          invocation.out.table(['AGENT', 'MODE', 'DRAFT NAME', 'NOW', 'WINDOW OR END', 'KEEPS', 'ATTACHED'], agents.map(row))
        })
      })
    )
  mode
    .command('set')
    .description('change it from now on; it is kept through restarts and published at once')
    .addArgument(new Argument('<mode>', 'by its short name or the one of the draft').choices([...MODE_WORDS]))
    .option('--agent <agent>', 'a local agent')
    .option('--period <duration>', 'hourly_wake: how often it wakes, such as 1h', durationMs)
    .option('--open <duration>', 'hourly_wake: for how long, such as 5m', durationMs)
    .option('--offset <duration>', 'hourly_wake: from when on in the period (UTC); by default spread by the identity', durationMs)
    .option('--until <moment>', 'sleep: when it wakes by itself, after a duration such as 8h, or at a date', (text: string) =>
      moment(Date.now())(text)
    )
    .addOption(new Option('--queueing <choice>', 'whether messages are kept while it sleeps').choices(['on', 'off']))
    .addHelpText('after', '\nExample:\n  rookery mode set hourly_wake --period 1h --open 5m')
    .action((word: string, options: SetOptions, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('mode.set', paramsOf(modeOf(word) as ReachabilityMode, options))
        invocation.out.result(view, () => tell(invocation.out, view))
      })
    )
}

function paramsOf(mode: ReachabilityMode, options: SetOptions): ControlParams<'mode.set'> {
  const { agent, period, open, offset, until, queueing } = options
  const hasWindow = period !== undefined || open !== undefined || offset !== undefined
  const seconds = (ms: number) => Math.round(ms / 1_000)
  return {
    mode,
    ...(agent === undefined ? {} : { agent }),
    ...(until === undefined ? {} : { untilMs: until }),
    ...(queueing === undefined ? {} : { queueing }),
    ...(hasWindow
      ? {
          window: {
            periodSec: period === undefined ? WAKE_PERIOD_DEFAULT_SEC : seconds(period),
            openSec: open === undefined ? WAKE_OPEN_DEFAULT_SEC : seconds(open),
            ...(offset === undefined ? {} : { offsetSec: seconds(offset) })
          }
        }
      : {})
  }
}

function row(agent: AgentView): string[] {
  const { now, retryAfterSec } = agent.reachable
  const wait = retryAfterSec === undefined ? '' : `, for ${age(retryAfterSec * 1_000)}`
  const keeps = agent.mode === 'sleep' || agent.mode === 'hourly_wake' ? (agent.queueing ?? 'on') : 'never'
  return [agent.name, agent.mode, MODE_NAMES[agent.mode], `${now}${wait}`, windowText(agent), keeps, String(agent.attached)]
}

/** What a mode and a published window say about now; nothing for modes that do not tell. */
export function availability({ mode, window }: Pick<AgentView, 'mode' | 'window'>, nowMs: number): string {
  if (mode !== 'hourly_wake' || window === undefined) return ''
  const now = isOpen(window, nowMs) ? 'open now' : `opens in ${age(nextOpeningMs(window, nowMs) - nowMs)}`
  return `: ${windowText({ window })}; ${now}`
}

export function windowText({ window, untilMs }: Pick<AgentView, 'window' | 'untilMs'>): string {
  if (untilMs !== undefined) return `until ${new Date(untilMs).toISOString()}`
  if (window === undefined) return ''
  const { periodSec, openSec, offsetSec } = window
  return `${age(openSec * 1_000)} in every ${age(periodSec * 1_000)}, from second ${offsetSec} on`
}

function tell(out: Output, view: AgentView): void {
  const when = windowText(view)
  out.line(`${view.name} is ${view.mode} (${MODE_NAMES[view.mode]})${when === '' ? '' : `: ${when}`}`)
  if (view.queueing === 'off') out.line('nothing is kept for it while it sleeps')
}
