import { InvalidArgumentError } from 'commander'
import type { FriendView } from '../../api/friend-methods.ts'
import { GRANT_VERBS, type GrantVerb } from '../../grants/principal.ts'
import type { RegisterCommand } from '../context.ts'
import { age, counted, type Output } from '../output.ts'
import { durationMs, list } from '../values.ts'

export const registerFriends: RegisterCommand = (program, run) => {
  const friends = program.command('friends').description('ask to be let in by agents of other nodes, and answer those that ask yours')
  friends
    .command('request <did>')
    .description('ask the owner of an agent to let yours in; a person there decides')
    .option('--agent <agent>', 'for which of your agents; default: the first')
    .option('--name <name>', 'who asks, shown to that person; default: the agent’s name')
    .option('--note <text>', 'why, in one line')
    .option('--verbs <verbs>', `what for, of ${GRANT_VERBS.join(',')}; default: all`, verbs)
    .addHelpText('after', '\nExample:\n  rookery friends request did:key:z6Mk… --note "forecasts for our fleet"')
    .action((did: string, options: { agent?: string; name?: string; note?: string; verbs?: GrantVerb[] }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const view = await invocation.call('friends.request', { did, ...options })
        out.result(view, () => {
          line(out, view)
          if (view.state === 'sent') out.line('it has not answered yet: it is asked when it is met')
        })
      })
    )
  friends
    .command('list')
    .description('who asked, and whom you asked')
    .option('--agent <agent>', 'of one of your agents')
    .addHelpText('after', '\nExample:\n  rookery friends list --json')
    .action((options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const result = await invocation.call('friends.list', options)
        out.result(result, () => {
          out.table(
            ['', 'STATE', 'AGENT', 'NAME', 'SINCE', 'VERBS', 'NOTE', 'DID'],
            result.friends.map((one) => [
              one.direction === 'in' ? 'asks' : 'asked',
              one.state,
              one.agent,
              one.name,
              age(Date.now() - one.changedAtMs),
              (one.grant ?? one).verbs.join(','),
              one.note,
              one.did
            ])
          )
          out.line(
            result.waiting === 0
              ? 'nobody waits for your answer'
              : `${counted(result.waiting, 'request')} for you to answer: rookery friends approve DID, or deny DID`
          )
        })
      })
    )
  friends
    .command('show <did>')
    .description('one peer, with the credential that you were given')
    .option('--agent <agent>', 'which of your agents')
    .addHelpText('after', '\nExample:\n  rookery friends show did:key:z6Mk…')
    .action((did: string, options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const result = await invocation.call('friends.show', { did, ...options })
        out.result(result, () => {
          for (const one of result.friends) {
            line(out, one)
            if (one.credential !== undefined) out.line(`credential ${one.credential}`)
          }
        })
      })
    )
  friends
    .command('approve <did>')
    .description('let an agent in that asked: a grant is vended and told over the session')
    .option('--agent <agent>', 'which of your agents it asked')
    .option('--verbs <verbs>', 'less than it asked for', verbs)
    .option('--ttl <duration>', 'for how long, such as 30d; default: setting grants.ttl', durationMs)
    .addHelpText('after', '\nExample:\n  rookery friends approve did:key:z6Mk… --verbs send,read --ttl 30d')
    .action((did: string, { agent, ttl, ...options }: { agent?: string; verbs?: GrantVerb[]; ttl?: number }, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('friends.approve', {
          did,
          ...options,
          ...(agent === undefined ? {} : { agent }),
          ...(ttl === undefined ? {} : { ttlMs: ttl })
        })
        invocation.out.result(view, () => line(invocation.out, view))
      })
    )
  friends
    .command('deny <did>')
    .description('refuse an agent that asked; it is refused by itself for a week')
    .option('--agent <agent>', 'which of your agents it asked')
    .addHelpText('after', '\nExample:\n  rookery friends deny did:key:z6Mk…')
    .action((did: string, options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('friends.deny', { did, ...options })
        invocation.out.result(view, () => line(invocation.out, view))
      })
    )
  friends
    .command('remove <did>')
    .description('end it in both directions: revoke what it has here, forget what you asked for')
    .option('--agent <agent>', 'which of your agents')
    .addHelpText('after', '\nExample:\n  rookery friends remove did:key:z6Mk…')
    .action((did: string, options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const result = await invocation.call('friends.remove', { did, ...options })
        invocation.out.result(result, () => invocation.out.line(`removed ${did}`))
      })
    )
}

function verbs(text: string): GrantVerb[] {
  const names = list(text)
  for (const name of names) {
    if (!GRANT_VERBS.some((verb) => verb === name)) throw new InvalidArgumentError(`"${name}" is none of ${GRANT_VERBS.join(', ')}.`)
  }
  return names as GrantVerb[]
}

function line(out: Output, view: FriendView): void {
  const until = view.grant === undefined ? '' : `, ${view.grant.verbs.join(', ')} until ${new Date(view.grant.untilMs).toISOString()}`
  out.line(
    `${view.direction === 'in' ? `${view.name} asked ${view.agent}` : `${view.agent} asked ${view.did}`}: ${out.paint.bold(view.state)}${until}`
  )
  if (!view.told) out.line('the other node has not acknowledged it yet: it is told when it is met')
}
