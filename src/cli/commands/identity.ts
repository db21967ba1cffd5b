import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { exportAgent, importAgent } from '../../backup/agent-export.ts'
import { exportNode, importNode, kindOfSealed } from '../../backup/node-export.ts'
import { nodeCrypto } from '../../crypto/node-crypto.ts'
import { AGENTS_DIR, AgentFiles } from '../../identity/agent-file.ts'
import { loadNodeKey } from '../../identity/node-key.ts'
import { systemRandom } from '../../platform/random.ts'
import type { RegisterCommand } from '../context.ts'
import { readPassphrase } from '../passphrase.ts'
import { passphraseFor } from './backup.ts'

const components = { crypto: nodeCrypto, random: systemRandom }

export const registerIdentity: RegisterCommand = (program, run) => {
  const identity = program.command('identity').description('the keys of this node and of its agents, on disk')
  identity
    .command('list')
    .description('whose keys lie in the data directory; works without a running node')
    .addHelpText('after', '\nExample:\n  rookery identity list --json')
    .action((_options, command) =>
      run(command, async ({ out, dataDir }) => {
        const { peer } = loadNodeKey(dataDir, nodeCrypto)
        const agents = existsSync(join(dataDir, AGENTS_DIR)) ? new AgentFiles(dataDir, components).identities() : []
        out.result({ peer, agents }, () => {
          out.line(`node  ${peer}`)
          out.table(
            ['AGENT', 'DID'],
            agents.map(({ name, did }) => [name, did])
          )
        })
      })
    )
  identity
    .command('export <file>')
    .description('write the key of this node, or of one of its agents, into a file sealed with a passphrase')
    .option('--agent <name>', 'of this agent, its mailbox keys included; default: of the node itself')
    .option('--passphrase-file <file>', 'read the passphrase from there (default: ROOKERY_PASSPHRASE, else it is asked for)')
    .option('--no-passphrase', 'leave the file open: whoever reads it has the keys')
    .addHelpText(
      'after',
      `
The file has mode 0600. Its key comes from the passphrase by scrypt (N 131072, r 8, p 1; the file names them). It holds keys alone: sequence
numbers, tasks and mail are in \`rookery backup\`.

Example:
  rookery identity export weather.key --agent weather --passphrase-file ~/.rookery-passphrase`
    )
    .action((file: string, options: { agent?: string; passphraseFile?: string; passphrase: boolean }, command) =>
      run(command, async (invocation) => {
        const { out, dataDir } = invocation
        const passphrase = await passphraseFor(invocation, options)
        const target = { dataDir, file: resolve(file), passphrase, nowMs: Date.now() }
        const done =
          options.agent === undefined
            ? { kind: 'node' as const, ...(await exportNode(components, target)) }
            : { kind: 'agent' as const, ...(await exportAgent({ ...target, name: options.agent })) }
        out.result(done, () => {
          out.line(
            `${out.paint.green('written')}  ${done.file}: ${done.kind === 'node' ? `node ${done.peer}` : `${done.name}, ${done.did}`}`
          )
          out.line('an identity lives at one node: two that act under one contradict each other')
        })
      })
    )
  identity
    .command('import <file>')
    .description('take in a key that was exported: into a folder without a key, or an agent beside others; the node must not run meanwhile')
    .option('--as <name>', 'another name for an agent')
    .option('--passphrase-file <file>', 'read the passphrase from there')
    .addHelpText('after', '\nExample:\n  rookery identity import node.key --data ~/.rookery-new')
    .action((file: string, options: { as?: string; passphraseFile?: string }, command) =>
      run(command, async (invocation) => {
        const { out, dataDir } = invocation
        const source = resolve(file)
        const passphrase = () => readPassphrase(invocation, { file: options.passphraseFile, use: 'open' })
        const { kind } = await kindOfSealed(source)
        if (kind === 'node') {
          const { peer } = await importNode(components, { dataDir, file: source, passphrase })
          out.result({ kind, peer, dataDir }, () => out.line(`${out.paint.green('taken in')}  node ${peer}, in ${dataDir}`))
          return undefined
        }
        const agent = await importAgent({ dataDir, file: source, as: options.as, passphrase })
        out.result({ kind, ...agent }, () => out.line(`added ${out.paint.bold(agent.name)}  ${agent.did}\nnext  rookery start`))
        return undefined
      })
    )
}
