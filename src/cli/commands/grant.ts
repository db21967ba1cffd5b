import { InvalidArgumentError } from 'commander'
import type { GrantView } from '../../api/grant-methods.ts'
import { BURST_MAX, PER_MIN_MAX } from '../../grants/grant.ts'
import { GRANT_VERBS, type GrantVerb } from '../../grants/principal.ts'
import type { RegisterCommand } from '../context.ts'
import { age, counted, type Output } from '../output.ts'
import { durationMs, integer, list } from '../values.ts'

interface CreateOptions {
  agent?: string
  for?: string
  verbs?: GrantVerb[]
  queues?: string[]
  ttl?: number
  burst?: number
  perMinute?: number
  replace?: true
}

export const registerGrant: RegisterCommand = (program, run) => {
  const grant = program.command('grant').description('who may give your agents work, and how much of it')
  grant
    .command('create <name>')
    .description('let somebody in: prints a credential, this once')
    .option('--agent <agent>', 'at which of your agents; default: the first')
    .option('--for <did>', 'bind it to an agent of another node, which may then use it over its sessions too')
    .option('--verbs <verbs>', `what it allows, of ${GRANT_VERBS.join(',')}; default: all`, verbs)
    .option('--queues <names>', 'named queues of the agent that its work goes into; the first where none is named', list)
    .option('--ttl <duration>', 'how long, such as 12h or 30d; default: setting grants.ttl', durationMs)
    .option('--burst <count>', 'tasks at once; default: setting grants.sendBurst', integer(1, BURST_MAX))
    .option('--per-minute <count>', 'tasks a minute after that; default: setting grants.sendPerMin', integer(1, PER_MIN_MAX))
    .option('--replace', 'revoke the grant that this holder has, in the same step')
    .addHelpText('after', '\nExample:\n  rookery grant create "build server" --agent weather --verbs send,read --ttl 30d')
    .action((name: string, options: CreateOptions, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const { agent, for: holder, ttl, burst, perMinute, replace } = options
        const made = await invocation.call('grant.create', {
          name,
          ...(agent === undefined ? {} : { agent }),
          ...(holder === undefined ? {} : { for: holder }),
          ...(options.verbs === undefined ? {} : { verbs: options.verbs }),
          ...(options.queues === undefined ? {} : { queues: options.queues }),
          ...(ttl === undefined ? {} : { ttlMs: ttl }),
          ...(burst === undefined ? {} : { burst }),
          ...(perMinute === undefined ? {} : { perMin: perMinute }),
          ...(replace === undefined ? {} : { replace })
        })
        out.result(made, () => {
          show(out, made)
          if (made.url !== undefined) out.line(`url        ${made.url}`)
          out.line(`credential ${out.paint.bold(made.credential)}`)
          out.note('keep the credential now: it is not stored and cannot be shown again')
        })
      })
    )
  grant
    .command('list')
    .description('the grants in force, and how much was refused since the start')
    .option('--agent <agent>', 'of one agent')
    .option('--all', 'those that have ended too')
    .addHelpText('after', '\nExample:\n  rookery grant list --all --json')
    .action((options: { agent?: string; all?: true }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const result = await invocation.call('grant.list', options)
        out.result(result, () => {
          out.table(
            ['GRANT', 'NAME', 'AGENT', 'STATE', 'ENDS IN', 'VERBS', 'RATE', 'FOR'],
            result.grants.map((one) => [
              one.id,
              one.name,
              one.agent,
              one.state,
              one.state === 'in-force' ? age(one.expiresAtMs - Date.now()) : '',
              one.verbs.join(','),
              `${one.limits.burst} + ${one.limits.perMin}/min`,
              one.for ?? 'whoever has the credential'
            ])
          )
          const { refused, withoutGrant } = result.counts
          out.line(
            `${counted(result.inForce, 'grant')} in force of ${result.max}; since the start refused: ${refused} too fast, ${withoutGrant} without a grant`
          )
        })
      })
    )
  grant
    .command('show <id>')
    .description('one grant; the credential is not stored')
    .addHelpText('after', '\nExample:\n  rookery grant show 3fa9')
    .action((id: string, _options, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('grant.show', { id })
        invocation.out.result(view, () => show(invocation.out, view))
      })
    )
  grant
    .command('revoke <id>')
    .description('end a grant now: open streams and waiting calls end with it')
    .addHelpText('after', '\nExample:\n  rookery grant revoke 3fa9')
    .action((id: string, _options, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('grant.revoke', { id })
        invocation.out.result(view, () => invocation.out.line(`grant ${view.id} (${view.name}) is revoked`))
      })
    )
  grant
    .command('tune <id>')
    .description('set how fast one grant may make tasks; what is left out follows the node’s setting again')
    .option('--burst <count>', 'tasks at once', integer(1, BURST_MAX))
    .option('--per-minute <count>', 'tasks a minute after that', integer(1, PER_MIN_MAX))
    .addHelpText('after', '\nExample:\n  rookery grant tune 3fa9 --burst 100 --per-minute 60')
    .action((id: string, { burst, perMinute }: { burst?: number; perMinute?: number }, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('grant.tune', {
          id,
          ...(burst === undefined ? {} : { burst }),
          ...(perMinute === undefined ? {} : { perMin: perMinute })
        })
        invocation.out.result(view, () => show(invocation.out, view))
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

function show(out: Output, view: GrantView): void {
  const rows: [string, string][] = [
    ['grant', `${view.id}  ${view.name}`],
    ['agent', view.agent],
    ['state', view.state],
    ['allows', view.verbs.join(', ')],
    ['queues', view.queues?.join(', ') ?? 'any'],
    ['for', view.for ?? 'whoever has the credential'],
    ['rate', `${view.limits.burst} at once, ${view.limits.perMin} a minute`],
    ['made', `${new Date(view.createdAtMs).toISOString()}${view.origin === 'friend' ? ' by a friend request' : ''}`],
    ['ends', new Date(view.revokedAtMs ?? view.expiresAtMs).toISOString()]
  ]
  for (const [name, value] of rows) out.line(`${name.padEnd(10)} ${value}`)
}
