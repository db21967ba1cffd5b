import { resolve } from 'node:path'
import { Option } from 'commander'
import { REACHABILITY_MODES, type ReachabilityMode } from '../../../protocol/delivery/modes.ts'
import { exportAgent, importAgent } from '../../backup/agent-export.ts'
import { RookeryError } from '../../errors.ts'
import type { RegisterCommand } from '../context.ts'
import { readPassphrase } from '../passphrase.ts'
import { passphraseFor } from './backup.ts'
import { handlerOf } from './init.ts'

/** What `agent show` tells, and `--only` picks from. */
const SHOWN = ['name', 'did', 'description', 'mode', 'handler', 'url', 'tokenFile'] as const

export const registerAgent: RegisterCommand = (program, run) => {
  const agent = program.command('agent').description('the agents that this node hosts')
  agent
    .command('add <name>')
    .description('create an agent: an identity, a mailbox and an A2A endpoint')
    .option('--description <text>', 'what it does, shown on its card')
    .option(
      '--handler <handler>',
      'manual, echo, digest, or the path of an ES module whose default export handles tasks',
      handlerOf,
      'manual'
    )
    .addOption(new Option('--mode <mode>', 'how it can be reached').choices(REACHABILITY_MODES))
    .addHelpText('after', '\nExample:\n  rookery agent add weather --description "forecasts for a place" --handler ./weather.mjs')
    .action((name: string, options: { description?: string; handler: string; mode?: ReachabilityMode }, command) =>
      run(command, async (invocation) => {
        const { description, handler, mode } = options
        const view = await invocation.call('agent.add', {
          name,
          handler,
          ...(description !== undefined ? { description } : {}),
          ...(mode !== undefined ? { mode } : {})
        })
        invocation.out.result(view, () => {
          invocation.out.line(`added ${invocation.out.paint.bold(view.name)}  ${view.did}`)
          if (view.url !== undefined) invocation.out.line(`A2A    ${view.url}`)
          if (view.tokenFile !== undefined) invocation.out.line(`token  in ${view.tokenFile}`)
        })
      })
    )
  agent
    .command('rotate <name>')
    .description('give an agent another identity; what it owns stays, its peers are told in their sessions')
    .addHelpText(
      'after',
      `
The new DID is published and the old one withdrawn for good; each session's peer gets a certificate signed by both keys. The old secret is
destroyed once all have acknowledged, after 24 hours at most. Name, token, tasks, queue and mailbox stay; the URL changes with the DID.

Example:
  rookery agent rotate weather --json`
    )
    .action((name: string, _options, command) =>
      run(command, async (invocation) => {
        const view = await invocation.call('agent.rotate', { name })
        invocation.out.result(view, () => {
          invocation.out.line(`rotated ${invocation.out.paint.bold(view.name)}`)
          invocation.out.line(`was    ${view.oldDid}`)
          invocation.out.line(`is     ${view.did}`)
          if (view.url !== undefined) invocation.out.line(`A2A    ${view.url}`)
          if (view.unacknowledged > 0) invocation.out.line('some peers have not acknowledged it yet: they are told when they are met again')
        })
      })
    )
  agent
    .command('list')
    .description('list them')
    .addHelpText('after', '\nExample:\n  rookery agent list --json')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const agents = await invocation.call('agent.list', {})
        invocation.out.result(agents, () => {
          if (agents.length === 0) invocation.out.line('no agents yet: rookery agent add NAME')
          invocation.out.table(
            ['AGENT', 'MODE', 'HANDLER', 'QUEUED', 'DID'],
            agents.map((one) => [one.name + (one.isDefault ? ' *' : ''), one.mode, one.handler, String(one.queue.messages), one.did])
          )
        })
      })
    )

  agent
    .command('show [name]')
    .description('one agent: its identity, its A2A address and where its token lies')
    .addOption(new Option('--only <member>', 'print this alone, for scripts').choices(SHOWN))
    .addHelpText('after', '\nExample:\n  rookery agent show weather\n  DID=$(rookery agent show weather --only did)')
    .action((name: string | undefined, { only }: { only?: (typeof SHOWN)[number] }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const agents = await invocation.call('agent.list', {})
        const view = agents.find((one) => (name === undefined ? one.isDefault : one.name === name))
        if (view === undefined) {
          throw new RookeryError('AGENT_UNKNOWN', name === undefined ? 'this node has no agent' : `this node has no agent "${name}"`, {
            kind: 'notFound',
            field: 'name',
            ...(name === undefined ? {} : { value: name }),
            remedy: name === undefined ? 'make one: rookery agent add NAME' : 'see `rookery agent list`'
          })
        }
        out.result(only === undefined ? view : (view[only] ?? null), () => {
          if (only !== undefined) return out.line(view[only] ?? '')
          for (const member of SHOWN)
            if (view[member] !== undefined && view[member] !== '') out.line(`${member.padEnd(11)} ${view[member]}`)
        })
      })
    )
  agent
    .command('export <name> <file>')
    .description('write an agent, its keys included, into a file sealed with a passphrase, to move it to another node')
    .option('--passphrase-file <file>', 'read the passphrase from there (default: ROOKERY_PASSPHRASE, else it is asked for)')
    .option('--no-passphrase', 'leave the file open: whoever reads it has the keys')
    .addHelpText('after', '\nExample:\n  rookery agent export weather weather.agent')
    .action((name: string, file: string, options: { passphraseFile?: string; passphrase: boolean }, command) =>
      run(command, async (invocation) => {
        const { out, dataDir } = invocation
        const passphrase = await passphraseFor(invocation, options)
        const done = await exportAgent({ dataDir, name, file: resolve(file), passphrase, nowMs: Date.now() })
        out.result(done, () => {
          out.line(`${out.paint.green('written')}  ${done.file}: ${done.name}, ${done.did}`)
          out.line('an agent lives at one node: two that act under one identity contradict each other')
        })
      })
    )
  agent
    .command('import <file>')
    .description('add an agent that another node exported; this node must not run meanwhile')
    .option('--as <name>', 'another name for it here')
    .option('--passphrase-file <file>', 'read the passphrase from there')
    .addHelpText('after', '\nExample:\n  rookery agent import weather.agent --as forecasts')
    .action((file: string, options: { as?: string; passphraseFile?: string }, command) =>
      run(command, async (invocation) => {
        const { out, dataDir } = invocation
        const passphrase = () => readPassphrase(invocation, { file: options.passphraseFile, use: 'open' })
        const agent = await importAgent({ dataDir, file: resolve(file), as: options.as, passphrase })
        out.result(agent, () => out.line(`added ${out.paint.bold(agent.name)}  ${agent.did}\nnext  rookery start`))
      })
    )
}
