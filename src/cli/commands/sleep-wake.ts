import type { DrainReport } from '../../delivery/asleep-queue.ts'
import type { RegisterCommand } from '../context.ts'
import type { Output } from '../output.ts'
import { moment } from '../values.ts'

export const registerSleepWake: RegisterCommand = (program, run) => {
  program
    .command('sleep')
    .description('put an agent to sleep: what arrives is queued on disk')
    .option('--agent <agent>', 'a local agent')
    .option('--until <moment>', 'when it wakes by itself: after a duration such as 8h, or at a date', (text: string) =>
      moment(Date.now())(text)
    )
    .addHelpText('after', '\nExample:\n  rookery sleep --until 8h')
    .action((options: { agent?: string; until?: number }, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('sleep', {
          ...(options.agent !== undefined ? { agent: options.agent } : {}),
          ...(options.until !== undefined ? { untilMs: options.until } : {})
        })
        invocation.out.result(view, () =>
          invocation.out.line(
            `${view.name} sleeps${view.untilMs === undefined ? '' : ` until ${new Date(view.untilMs).toISOString()}`}; up to ${view.queue.bounds.messagesMax} messages wait for it`
          )
        )
      })
    )
  program
    .command('wake')
    .description('wake an agent: what waited is validated again and handed over')
    .option('--agent <agent>', 'a local agent')
    .option('--trust-clock', 'the clock is right, though the disk knows a later time: hand over what that holds back')
    .addHelpText('after', '\nExample:\n  rookery wake')
    .action(({ trustClock, ...options }: { agent?: string; trustClock?: true }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const view = await invocation.call('wake', { ...options, ...(trustClock === undefined ? {} : { clock: 'trusted' as const }) })
        out.result(view, () => {
          const { drain } = view
          out.line(
            `${view.name} is awake (${view.mode}): ${drain.accepted} handed over, ${drain.discarded} discarded, ${drain.waiting} waiting`
          )
          if (drain.held !== undefined)
            out.line(out.paint.yellow(`held: ${drain.held}; set the clock, or say that it is right with \`rookery wake --trust-clock\``))
          drainTable(out, drain)
        })
      })
    )
}

/** What became of each record. */
export function drainTable(out: Output, { events }: Pick<DrainReport, 'events'>): void {
  out.table(
    ['OBJECT', 'OUTCOME', 'REASON', 'TASK'],
    events.map((event) => [event.objectId, event.outcome, event.reason ?? '', event.todo ?? ''])
  )
}
