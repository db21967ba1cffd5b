import { Option } from 'commander'
import type { TaskEventView } from '../../api/task-methods.ts'
import type { JsonObject } from '../../tasks/todo.ts'
import type { RegisterCommand } from '../context.ts'
import type { Output } from '../output.ts'
import { taskEventText, taskFacts } from '../task-text.ts'
import { integer } from '../values.ts'

const STATES = ['submitted', 'working', 'completed', 'failed', 'canceled', 'input-required', 'rejected', 'auth-required'] as const

interface ListOptions {
  agent?: string
  state?: (typeof STATES)[number]
  context?: string
  limit?: number
  page?: string
}

export const registerTask: RegisterCommand = (program, run) => {
  const task = program.command('task').description('work that our agents gave to others: ask for it, follow it, take it back')
  const asker = () => new Option('--agent <agent>', 'in whose name, a local agent')
  task
    .command('list <at>')
    .description('list the tasks that an agent, by DID or local name, has of ours, the newest first')
    .addOption(asker())
    .addOption(new Option('--state <state>', 'only these').choices(STATES))
    .option('--context <id>', 'only of one context')
    .option('--limit <count>', 'at most this many', integer(1, 100))
    .option('--page <token>', 'go on after an earlier list')
    .addHelpText('after', '\nExample:\n  rookery task list did:key:z6Mk… --state working')
    .action((at: string, { context, page, ...options }: ListOptions, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const result = await invocation.call('task.list', {
          at,
          ...options,
          ...(context === undefined ? {} : { contextId: context }),
          ...(page === undefined ? {} : { pageToken: page })
        })
        out.result(result, () => {
          if (result.tasks.length === 0) return out.line('no tasks')
          const rows = result.tasks.map(taskFacts).map(({ id, state, changedAt, message }) => [id, state, changedAt, oneLine(message)])
          out.table(['TASK', 'STATE', 'CHANGED', 'STATUS'], rows)
          out.note(`${result.tasks.length} of ${result.totalSize}`)
          if (result.nextPageToken !== '') out.note(`more: --page ${result.nextPageToken}`)
        })
      })
    )
  task
    .command('show <at> <task>')
    .description('one task as it is now')
    .addOption(asker())
    .option('--history <count>', 'with this many of its messages, the newest', integer(0, 1_000))
    .addHelpText('after', '\nExample:\n  rookery task show did:key:z6Mk… 0199b2c0-… --history 2')
    .action((at: string, id: string, { history, ...options }: { agent?: string; history?: number }, command) =>
      run(command, async (invocation) => {
        const params = { at, id, ...options, ...(history === undefined ? {} : { historyLength: history }) }
        const result = await invocation.call('task.show', params)
        invocation.out.result(result, () => show(invocation.out, result.task))
      })
    )
  task
    .command('cancel <at> <task>')
    .description('take a task back that has not ended')
    .addOption(asker())
    .addHelpText('after', '\nExample:\n  rookery task cancel did:key:z6Mk… 0199b2c0-…')
    .action((at: string, id: string, options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const result = await invocation.call('task.cancel', { at, id, ...options })
        invocation.out.result(result, () => show(invocation.out, result.task))
      })
    )
  task
    .command('watch <at> <task>')
    .description('follow a task event by event until it ends; Ctrl-C leaves and cancels nothing')
    .addOption(asker())
    .option('--after <event>', 'only what came after this event')
    .addHelpText('after', '\nExample:\n  rookery task watch did:key:z6Mk… 0199b2c0-… --json')
    .action((at: string, id: string, options: { agent?: string; after?: string }, command) =>
      run(command, async (invocation) => {
        const { out, signal } = invocation
        try {
          await invocation.call('task.watch', { at, id, ...options }, { progress: 'quiet', onEvent: (event) => tellTaskEvent(out, event) })
        } catch (error) {
          if (!signal.aborted) throw error
        }
        return undefined
      })
    )
}

/** An event as a line, or as JSON for programs. */
export function tellTaskEvent(out: Output, event: unknown): void {
  out.jsonLine(event)
  out.line(taskEventText(event as TaskEventView))
}

function show(out: Output, task: JsonObject): void {
  const { id, contextId, state, changedAt, message, artifacts } = taskFacts(task)
  const { history } = task as { history?: JsonObject[] }
  const rows = [
    ['task', id],
    ['context', contextId],
    ['state', state],
    ['changed', changedAt],
    ['status', message],
    ...(history ?? []).map((one) => ['message', oneLine(taskEventText({ id: String(one.messageId), response: { message: one } }))]),
    ...artifacts.map(({ name, text }) => ['artifact', `${name}  ${text}`])
  ]
  for (const [name = '', value] of rows) if (value !== '') out.line(`${name.padEnd(9)} ${value}`)
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').slice(0, 80)
}
