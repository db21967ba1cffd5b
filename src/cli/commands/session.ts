import type { SessionInfo } from '../../sessions/session.ts'
import type { RegisterCommand } from '../context.ts'
import type { Output } from '../output.ts'

export const registerSession: RegisterCommand = (program, run) => {
  const session = program.command('session').description('Persistent State Sessions with other agents')
  session
    .command('open <did>')
    .description('open a session, or show the one that is open')
    .option('--agent <agent>', 'a local agent')
    .addHelpText('after', '\nExample:\n  rookery session open did:key:z6Mk…')
    .action((did: string, options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const info = await invocation.call('session.open', { did, ...options })
        invocation.out.result(info, () => print(invocation.out, info))
      })
    )
  session
    .command('list')
    .description('list open sessions')
    .addHelpText('after', '\nExample:\n  rookery session list')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const sessions = await invocation.call('session.list', {})
        invocation.out.result(sessions, () => {
          if (sessions.length === 0) invocation.out.line('no open sessions')
          invocation.out.table(
            ['ID', 'STATE', 'TRANSPORT', 'SENT/ACKED', 'RECEIVED', 'REMOTE'],
            sessions.map((one) => [one.id, one.state, one.transport, `${one.txSeq}/${one.txAcked}`, one.rxSeq, one.remote])
          )
        })
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

function print(out: Output, info: SessionInfo): void {
  out.line(`${out.paint.bold(info.id)}  ${info.state}`)
  out.line(`with       ${info.remote}`)
  out.line(`over       ${info.transport}, ${info.remoteAddr}`)
  out.line(`handshake  ${info.handshakeMs.toFixed(1)} ms, ${info.roundTrips} round trips, as ${info.role}`)
  out.line(`cookies    initiator ${info.cookies.initiator}, responder ${info.cookies.responder}`)
  out.line(`sequence   sent ${info.txSeq} (acked ${info.txAcked}), received ${info.rxSeq}`)
}
