import type { SpaceDetails } from '../../spaces/spaces.ts'
import type { RegisterCommand } from '../context.ts'
import { age, counted, type Output } from '../output.ts'
import { list } from '../values.ts'
import { trustText } from './find-text.ts'
import { registerCuration } from './space-curate.ts'

export const registerSpace: RegisterCommand = (program, run) => {
  const space = program.command('space').description('discovery spaces: topics that agents announce and join')
  registerCuration(space, run)
  space
    .command('join <name>')
    .description('join a space; others then find the agent there')
    .option('--agent <agent>', 'the member, a local agent')
    .option('--tags <tags>', 'what the agent offers there, comma-separated', list)
    .option('--unlisted', 'in no listing: only anonymous searches reach the agent, and it decides whether to answer')
    .addHelpText('after', '\nExample:\n  rookery space join org.agentnet/marketplace.energy@1 --tags seller,solar')
    .action((name: string, { unlisted, ...options }: { agent?: string; tags?: string[]; unlisted?: true }, command) =>
      run(command, async (invocation) => {
        const listing = unlisted === true ? { listing: 'unlisted' as const } : {}
        const view = await invocation.call('space.join', { name, ...options, ...listing })
        invocation.out.result(view, () =>
          invocation.out.line(
            `joined ${invocation.out.paint.bold(view.space)}${unlisted === true ? ', unlisted,' : ''} at ${view.stored} of ${counted(view.registrars, 'registrar')}; refreshed while the node runs`
          )
        )
      })
    )
  space
    .command('leave <name>')
    .description('leave a space, and withdraw its announcement if the agent curates it')
    .option('--agent <agent>', 'a local agent')
    .addHelpText('after', '\nExample:\n  rookery space leave org.agentnet/marketplace.energy@1')
    .action((name: string, options: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const result = await invocation.call('space.leave', { name, ...options })
        invocation.out.result(result, () => invocation.out.line(`left ${result.name}`))
      })
    )
  space
    .command('list')
    .description('what the local agents announced and joined')
    .addHelpText('after', '\nExample:\n  rookery space list')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const spaces = await invocation.call('space.list', {})
        invocation.out.result(spaces, () => {
          if (spaces.length === 0) invocation.out.line('none yet: rookery space join NS/TOPIC@VERSION')
          invocation.out.table(
            ['SPACE', 'ROLE', 'AGENT', 'REFRESHED', 'EXPIRES IN'],
            spaces.map((one) => [
              one.name,
              one.listing === 'unlisted' ? `${one.role}, unlisted` : one.role,
              one.agent,
              `${age(Date.now() - one.refreshedAtMs)} ago`,
              age(one.expiresAtMs - Date.now())
            ])
          )
          for (const one of spaces) {
            if (one.movedToVersion !== undefined)
              invocation.out.note(`${one.name}: its curator went on to version ${one.movedToVersion}; join that one to be found there`)
            else if (one.space === 'gone') invocation.out.note(`${one.name}: its curator announces it no more`)
            if (one.offeredTo !== undefined) invocation.out.note(`${one.name} is offered to ${one.offeredTo}, who has not taken it yet`)
          }
        })
      })
    )
  space
    .command('show <name>')
    .description('everything known of a space: curator and why it is followed, size, parts, versions, who else announces it')
    .addHelpText('after', '\nExample:\n  rookery space show org.agentnet/marketplace.energy@1')
    .action((name: string, _options, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const details = await invocation.call('space.show', { name })
        out.result(details, () => {
          for (const line of detailLines(out, details)) out.line(line)
        })
      })
    )
  space
    .command('trust <name> <curator>')
    .description('follow this curator, by DID, from now on; "nobody" forgets whom this node follows')
    .addHelpText('after', '\nExample:\n  rookery space trust org.agentnet/marketplace.energy@1 did:key:z6Mk…')
    .action((name: string, curator: string, _options, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const result = await invocation.call('space.trust', { name, curator })
        out.result(result, () =>
          out.line(
            result.curator === undefined
              ? `${result.name}: the next curator accepted is followed`
              : `${result.name}: ${result.curator} is followed`
          )
        )
      })
    )
}

function detailLines(out: Output, details: SpaceDetails): string[] {
  const { registrars, remembered, movedToVersion } = details
  const nowMs = Date.now()
  const incomplete = details.complete ? '' : ', incomplete'
  const lines = [
    out.paint.bold(details.name),
    `curator   ${details.curator ?? 'none'} (${trustText(details.trust)})`,
    `members   ${details.members}${details.pruned === 0 ? '' : `, ${details.pruned} more pruned`}${incomplete}, in ${counted(details.shards, 'part')}`,
    `known     from ${registrars.answered} of ${counted(registrars.known, 'registrar')}`,
    `DS_ID     ${details.dsid}`
  ]
  if (remembered !== undefined && remembered !== details.curator) lines.push(`followed  ${remembered} until now`)
  if (movedToVersion !== undefined) lines.push(`moved     its curator went on to version ${movedToVersion}`)
  for (const { role, agent } of details.ours) lines.push(`ours      ${role} ${agent}`)
  if (details.announcements.length > 0) {
    lines.push(
      '',
      ...out.rows(
        ['ANNOUNCED BY', 'STATE', 'HELD BY', 'AGO', 'DESCRIPTION'],
        details.announcements.map((one) => [
          one.curator,
          one.state === 'live' && one.next !== undefined ? `live, offered to ${one.next.curator}` : one.state,
          counted(one.heldBy, 'registrar'),
          age(nowMs - one.announcedAtMs),
          one.description
        ])
      )
    )
  }
  if (details.versions.length > 0) {
    lines.push(
      '',
      ...out.rows(
        ['VERSION', 'STATE', 'CURATOR', 'FOLLOWED BY'],
        details.versions.map((one) => [
          String(one.version),
          one.state,
          one.curator,
          one.next === undefined ? '' : `version ${one.next.version} of ${one.next.curator}`
        ])
      )
    )
  }
  return lines
}
