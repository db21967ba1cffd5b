import { RookeryError } from '../../errors.ts'
import type { RegisterCommand } from '../context.ts'

export const registerApprove: RegisterCommand = (program, run) => {
  program
    .command('approve [id]')
    .description(
      'let work that came out of the asleep queue run though it may have lasting effects; without an id: list what waits for that'
    )
    .option('--all', 'all that waits')
    .option('--agent <agent>', 'of this local agent')
    .option('--refuse', 'refuse it instead: it ends as rejected')
    .addHelpText('after', '\nExample:\n  rookery approve 0199b2c0-…')
    .action((id: string | undefined, { all, agent, refuse }: { all?: boolean; agent?: string; refuse?: boolean }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        if (id !== undefined && all === true) {
          throw new RookeryError('USAGE', 'give one id or --all, not both', { kind: 'usage', field: '--all', remedy: 'leave one out' })
        }
        const verdict = refuse === true ? 'refused' : 'given'
        if (id !== undefined) {
          const { todo } = await invocation.call('inbox.approve', { id, verdict })
          out.result([{ id, state: todo.state, approval: todo.approval }], () => out.line(`${id}  ${todo.state}, approval ${verdict}`))
          return undefined
        }
        const waiting = (
          await invocation.call('inbox.list', { state: 'auth-required', limit: 1_000, ...(agent === undefined ? {} : { agent }) })
        ).filter(({ approval }) => approval === 'needed')
        if (all !== true) {
          out.result(waiting, () => {
            if (waiting.length === 0) out.line('nothing waits for approval')
            out.table(
              ['ID', 'AGENT', 'FROM', 'TEXT'],
              waiting.map((one) => [one.id, one.agent, one.caller, one.preview.slice(0, 60)])
            )
          })
          return undefined
        }
        const done: { id: string; state: string; approval: string | undefined }[] = []
        for (const one of waiting.toReversed()) {
          out.progress(`${done.length + 1} of ${waiting.length}`)
          const { todo } = await invocation.call('inbox.approve', { id: one.id, verdict })
          done.push({ id: todo.id, state: todo.state, approval: todo.approval })
        }
        out.result(done, () => out.line(`${done.length} ${refuse === true ? 'refused' : 'approved'}`))
        return undefined
      })
    )
}
