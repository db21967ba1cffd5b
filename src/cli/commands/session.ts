import type { ControlParams } from '../../api/methods.ts'
import type { RegisterCommand } from '../context.ts'
import { contractFields } from '../values.ts'
import { detailLines, infoLines, SESSION_HEAD, sessionRow } from './session-show.ts'
import { watchSessions } from './session-watch.ts'

type Needs = ReturnType<typeof contractFields>

export const registerSession: RegisterCommand = (program, run) => {
  const session = program.command('session').description('Persistent State Sessions with other agents')
  session
    .command('open <did>')
    .description('open a session, or show the one that is open')
    .option('--agent <agent>', 'a local agent')
    .option('--contract [needs]', 'ask for a contract; needs: name=value,… of what it must grant at least', contractFields)
    .option('--exclusive', 'ask for state that is shared with no other session')
    .addHelpText(
      'after',
      `
Example:
  rookery session open did:key:z6Mk…
  rookery session open did:key:z6Mk… --contract
  rookery session open did:key:z6Mk… --contract payloadBytesMax=65536,scopes=send-messages+mailbox

Needs: site, scopes (read-ese, write-ese, send-messages, create-tasks, stream, mailbox, relay), eseBytesMax, messagesPerMinuteMax,
payloadBytesMax, sessionSecondsMax, storedBytesMax, concurrentTasksMax, region`
    )
    .action((did: string, { agent, contract, exclusive }: { agent?: string; contract?: Needs | true; exclusive?: true }, command) =>
      run(command, async (invocation) => {
        const params = {
          did,
          ...(agent === undefined ? {} : { agent }),
          ...(contract === undefined ? {} : { contract: contract === true ? {} : contract }),
          ...(exclusive === undefined ? {} : { exclusive })
        }
        // the node refuses what is no field of a contract, by name
        const info = await invocation.call('session.open', params as ControlParams<'session.open'>)
        invocation.out.result(info, () => {
          for (const line of infoLines(invocation.out, info)) invocation.out.line(line)
        })
      })
    )
  session
    .command('list')
    .description('list open sessions, those without a connection included')
    .addHelpText('after', '\nExample:\n  rookery session list')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const sessions = await invocation.call('session.list', {})
        invocation.out.result(sessions, () => {
          if (sessions.length === 0) invocation.out.line('no open sessions')
          invocation.out.table(SESSION_HEAD, sessions.map(sessionRow))
        })
      })
    )
  session
    .command('show <id>')
    .description('everything of one session: state, round-trip time, vectors, channels, contract and what was used of it')
    .addHelpText('after', '\nExample:\n  rookery session show 8d3f2c0a9b4e4f1d8a7c6b5e4d3c2b1a')
    .action((id: string, _options, command) =>
      run(command, async (invocation) => {
        const details = await invocation.call('session.show', { id })
        invocation.out.result(details, () => {
          for (const line of detailLines(invocation.out, details, Date.now())) invocation.out.line(line)
        })
      })
    )
  session
    .command('watch [id]')
    .description('follow one session or all until Ctrl-C; with --json one object a line, at every change')
    .addHelpText('after', '\nExample:\n  rookery session watch\n  rookery session watch 8d3f2c0a9b4e4f1d8a7c6b5e4d3c2b1a --json')
    .action((id: string | undefined, _options, command) =>
      run(command, async (invocation) => {
        await watchSessions(invocation, id)
        return undefined
      })
    )
  session
    .command('close <id>')
    .description('flush and close a session by TEARDOWN')
    .addHelpText('after', '\nExample:\n  rookery session close 8d3f2c0a9b4e4f1d8a7c6b5e4d3c2b1a')
    .action((id: string, _options, command) =>
      run(command, async (invocation) => {
        const result = await invocation.call('session.close', { id })
        invocation.out.result(result, () => invocation.out.line(`closed ${result.id}`))
      })
    )
}
