import { InvalidArgumentError, Option } from 'commander'
import { POINT_ACCESS, type PointAccess } from '../../../protocol/discovery/point-messages.ts'
import { RookeryError } from '../../errors.ts'
import type { Json } from '../../tasks/todo.ts'
import type { RegisterCommand } from '../context.ts'
import { age } from '../output.ts'
import { durationMs, list } from '../values.ts'

const WEEK_MS = 7 * 86_400_000

/** JSON, or plain text where it is none. */
function jsonOrText(text: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch {
    if (/^\s*[[{"]/.test(text)) throw new InvalidArgumentError('it begins like JSON and is none.')
    return text
  }
}

function refuseGrant(): never {
  throw new RookeryError('USAGE', 'a local point has no grants', {
    kind: 'usage',
    field: '--access',
    value: 'grant',
    remedy: 'use open or trust'
  })
}

export const registerPoint: RegisterCommand = (program, run) => {
  const point = program.command('point').description('global points: endpoints of an agent that others find by its DID and a tag')
  point
    .command('add <tag>')
    .description('register a point, or change it; kept alive while the node runs')
    .option('--agent <agent>', 'whose point, a local agent')
    .addOption(
      new Option('--access <who>', 'anyone with a session, holders of a grant, or those of --trust').choices(POINT_ACCESS).default('open')
    )
    .option('--value <json>', 'what those who may read it get: JSON or text', jsonOrText, null)
    .option('--trust <dids>', 'with --access trust: who may, comma-separated', list)
    .option('--local', 'on this link alone, never told to the network')
    .addHelpText('after', '\nExample:\n  rookery point add printer --access grant --value \'{"queue":"laser-2"}\'')
    .action(
      (tag: string, { local, ...options }: { agent?: string; access: PointAccess; value: Json; trust?: string[]; local?: true }, command) =>
        run(command, async (invocation) => {
          if (local === true) {
            const access = options.access === 'grant' ? refuseGrant() : options.access
            const view = await invocation.call('localPoint.add', { tag, ...options, access })
            invocation.out.result(view, () => invocation.out.line(`${view.tag} of ${view.did} (${view.access}) on this link`))
            return undefined
          }
          const view = await invocation.call('point.add', { tag, ...options })
          invocation.out.result(view, () =>
            invocation.out.line(
              `${invocation.out.paint.bold(view.tag)} of ${view.did} (${view.access}) at ${view.stored} of ${view.asked} nodes`
            )
          )
          return undefined
        })
    )
  point
    .command('remove <tag>')
    .description('take a point back')
    .option('--agent <agent>', 'a local agent')
    .option('--local', 'one of this link')
    .addHelpText('after', '\nExample:\n  rookery point remove printer')
    .action((tag: string, { local, ...options }: { agent?: string; local?: true }, command) =>
      run(command, async (invocation) => {
        const result = await invocation.call(local === true ? 'localPoint.remove' : 'point.remove', { tag, ...options })
        invocation.out.result(result, () => invocation.out.line(`took ${result.tag} back`))
      })
    )
  point
    .command('list')
    .description('points of the local agents, with grants in force; with --local all of this link')
    .option('--local', 'ours and those of others on this link')
    .addHelpText('after', '\nExample:\n  rookery point list')
    .action(({ local }: { local?: true }, command) =>
      run(command, async (invocation) => {
        if (local === true) {
          const found = await invocation.call('localPoint.list', {})
          invocation.out.result(found, () => {
            if (found.length === 0) invocation.out.line('none on this link')
            const rows = found.map(({ tag, did, access, at, mac }) => [tag, did, access, at, mac ?? ''])
            invocation.out.table(['TAG', 'AGENT', 'ACCESS', 'AT', 'MAC'], rows)
          })
          return undefined
        }
        const points = await invocation.call('point.list', {})
        invocation.out.result(points, () => {
          if (points.length === 0) invocation.out.line('none yet: rookery point add TAG')
          invocation.out.table(
            ['TAG', 'AGENT', 'ACCESS', 'WHO', 'EXPIRES IN'],
            points.map(({ tag, agent, access, trust, grants, expiresAtMs }) => [
              tag,
              agent,
              access,
              access === 'trust' ? trust.join(',') : grants.map(({ id }) => id).join(','),
              age(expiresAtMs - Date.now())
            ])
          )
        })
        return undefined
      })
    )
  point
    .command('grant <tag>')
    .description('make a secret that lets whoever shows it read the point; it is shown this once')
    .option('--agent <agent>', 'a local agent')
    .option('--for <duration>', 'how long it is good', durationMs, WEEK_MS)
    .addHelpText('after', '\nExample:\n  rookery point grant printer --for 30d')
    .action((tag: string, options: { agent?: string; for: number }, command) =>
      run(command, async (invocation) => {
        const { for: ttlMs, ...rest } = options
        const result = await invocation.call('point.grant', { tag, ttlMs, ...rest })
        invocation.out.result(result, () => {
          invocation.out.line(result.grant)
          invocation.out.note(`good until ${new Date(result.expiresAtMs).toISOString()}; it cannot be shown again`)
        })
      })
    )
  point
    .command('revoke <tag> <id>')
    .description('end a grant at once')
    .option('--agent <agent>', 'a local agent')
    .addHelpText('after', '\nExample:\n  rookery point revoke printer 3f1c2a9b0d4e5f60')
    .action((tag: string, id: string, options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const result = await invocation.call('point.revoke', { tag, id, ...options })
        invocation.out.result(result, () => invocation.out.line(`grant ${result.id} of ${result.tag} is over`))
      })
    )
  point
    .command('show <did> <tag>')
    .description('look a point up: who may read it, until when it is known; asks the network, not its owner')
    .addHelpText('after', '\nExample:\n  rookery point show did:key:z6Mk… printer')
    .action((did: string, tag: string, _options, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const view = await invocation.call('point.show', { did, tag })
        out.result(view, () =>
          out.line(`${out.paint.bold(view.tag)} of ${view.did}\naccess      ${view.access}\ncoordinate  ${view.coordinate}`)
        )
      })
    )
  point
    .command('read <did> <tag>')
    .description('read a point over a session with its owner')
    .option('--agent <agent>', 'as whom, a local agent')
    .option('--grant <secret>', 'what `point grant` gave')
    .option('--local', 'one of this link')
    .addHelpText('after', '\nExample:\n  rookery point read did:key:z6Mk… printer --grant …')
    .action((did: string, tag: string, { local, grant, agent }: { agent?: string; grant?: string; local?: true }, command) =>
      run(command, async (invocation) => {
        const params = { did, tag, ...(agent === undefined ? {} : { agent }) }
        const result =
          local === true
            ? await invocation.call('localPoint.read', params)
            : await invocation.call('point.read', { ...params, ...(grant === undefined ? {} : { grant }) })
        invocation.out.result(result, () => invocation.out.line(JSON.stringify(result.value, null, 2)))
      })
    )
}
