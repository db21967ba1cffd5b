import type { ControlParams } from '../../api/methods.ts'
import { RookeryError } from '../../errors.ts'
import type { GroupView } from '../../groups/groups.ts'
import type { RegisterCommand } from '../context.ts'
import type { Output } from '../output.ts'

const LIST_HEAD = ['GROUP', 'ID', 'AGENT', 'ROLE', 'EPOCH', 'MEMBERS', 'LINKED']
const MEMBER_HEAD = ['MEMBER', 'SINCE', 'LINK', 'KEYS', 'OPS', '']

export const registerGroup: RegisterCommand = (program, run) => {
  const group = program
    .command('group')
    .description('groups that share state: each member writes its own, all see every change, under keys that only members have')
  group
    .command('create <name>')
    .description('make a group that a local agent owns')
    .option('--agent <agent>', 'a local agent')
    .addHelpText('after', '\nExample:\n  rookery group create board')
    .action((name: string, { agent }: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('group.create', { name, ...agentOf(agent) })
        invocation.out.result(view, () => invocation.out.line(`created ${view.name}  ${view.id}`))
      })
    )
  group
    .command('invite <group> <did>')
    .description('make an agent a member; it is told as soon as it can be reached')
    .option('--agent <agent>', 'a local agent')
    .option('--no-history', 'it is not shown what the members wrote before')
    .addHelpText('after', '\nExample:\n  rookery group invite board did:key:z6Mk…')
    .action((name: string, did: string, { agent, history }: { agent?: string; history: boolean }, command) =>
      run(command, async (invocation) => {
        const params = { group: name, member: did, history: history ? 'snapshot' : 'none', ...agentOf(agent) } as const
        const view = await invocation.call('group.invite', params)
        invocation.out.result(view, () => invocation.out.line(`${did} is a member of ${view.name} since epoch ${view.epoch}`))
      })
    )
  group
    .command('remove <group> <did>')
    .description('take a member out; the others get another key at once')
    .option('--agent <agent>', 'a local agent')
    .addHelpText('after', '\nExample:\n  rookery group remove board did:key:z6Mk…')
    .action((name: string, did: string, { agent }: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('group.remove', { group: name, member: did, ...agentOf(agent) })
        invocation.out.result(view, () => invocation.out.line(`${did} is no member of ${view.name} any more; epoch ${view.epoch}`))
      })
    )
  group
    .command('leave <group>')
    .description('let go of a group of somebody else')
    .option('--agent <agent>', 'a local agent')
    .addHelpText('after', '\nExample:\n  rookery group leave board')
    .action((name: string, { agent }: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const left = await invocation.call('group.leave', { group: name, ...agentOf(agent) })
        invocation.out.result(left, () => invocation.out.line(`left ${left.id}`))
      })
    )
  group
    .command('set <group> <key> [json]')
    .description('write one key of our own state in the group')
    .option('--agent <agent>', 'a local agent')
    .option('--delete', 'take the key away')
    .addHelpText(
      'after',
      `\nExample:\n  rookery group set board task-7 '{"owner":"me","done":false}'\n  rookery group set board task-7 --delete`
    )
    .action((name: string, key: string, json: string | undefined, options: { agent?: string; delete?: true }, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('group.set', {
          group: name,
          key,
          ...writtenValue(json, options.delete),
          ...agentOf(options.agent)
        })
        invocation.out.result(view, () => invocation.out.line(`${options.delete === true ? 'deleted' : 'set'} ${key} in ${view.name}`))
      })
    )
  group
    .command('show [group]')
    .description('members of a group, and what each of them wrote; without a group, all groups')
    .option('--agent <agent>', 'a local agent')
    .option('--key <key>', 'this key only')
    .addHelpText('after', '\nExample:\n  rookery group show\n  rookery group show board --key task-7 --json')
    .action((name: string | undefined, { agent, key }: { agent?: string; key?: string }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        if (name === undefined) {
          const groups = await invocation.call('group.list', agentOf(agent))
          out.result(groups, () => {
            if (groups.length === 0) out.line('no groups')
            out.table(LIST_HEAD, groups.map(groupRow))
          })
          return
        }
        const shown = await invocation.call('group.show', { group: name, ...agentOf(agent), ...(key === undefined ? {} : { key }) })
        out.result(shown, () => {
          headLines(out, shown)
          out.table(
            MEMBER_HEAD,
            shown.members.map((one) => [
              one.did,
              String(one.since),
              one.isSelf ? 'self' : one.linked ? 'linked' : 'away',
              String(one.keys ?? '–'),
              one.applied === undefined ? '–' : one.applied === one.held ? one.applied : `${one.applied} of ${one.held}`,
              one.isOwner ? 'owner' : ''
            ])
          )
          for (const { did, entries } of shown.states) {
            for (const entry of entries)
              out.line(`${did}  ${entry.key}  ${JSON.stringify('value' in entry ? entry.value : { base64: entry.base64 })}`)
          }
        })
      })
    )
}

function agentOf(agent: string | undefined): { agent?: string } {
  return agent === undefined ? {} : { agent }
}

/** @throws RookeryError `VALUE_INVALID` */
function writtenValue(json: string | undefined, isDelete: true | undefined): Pick<ControlParams<'group.set'>, 'value'> {
  if (isDelete === true && json === undefined) return {}
  const usage = (message: string, remedy: string) =>
    new RookeryError('VALUE_INVALID', message, { kind: 'usage', field: 'json', value: json, remedy })
  if (isDelete === true) throw usage('a value and --delete exclude each other', 'leave one of them out')
  if (json === undefined) throw usage('there is no value', 'give JSON, or --delete')
  try {
    return { value: JSON.parse(json) }
  } catch {
    throw usage('the value is no JSON', `write text in quotes: '"text"'`)
  }
}

function groupRow({ name, id, agent, role, epoch, members }: GroupView): string[] {
  const others = members.filter((one) => !one.isSelf)
  const linked = `${others.filter((one) => one.linked).length} of ${others.length}`
  return [name, id, agent, role, String(epoch), String(members.length), linked]
}

function headLines(out: Output, { name, id, agent, role, epoch, writable, hash }: GroupView): void {
  out.line(`${name}  ${id}`)
  out.line(`agent ${agent} (${role}), epoch ${epoch}${writable === 'yes' ? '' : `, ${writable}`}`)
  out.line(`state ${hash}`)
}
