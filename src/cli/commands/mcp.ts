import { readFileSync } from 'node:fs'
import { RookeryError } from '../../errors.ts'
import type { RegisterCommand } from '../context.ts'

/** A bridge: what the host writes to stdin goes to the running node's MCP door, and back. */
export const registerMcp: RegisterCommand = (program, run) => {
  program
    .command('mcp')
    .description('serve MCP over stdio in the name of an agent of the running node, for a host that starts its servers itself')
    .option('--agent <agent>', 'a local agent; by default the default one')
    .addHelpText('after', '\nExample:\n  rookery mcp --agent bob')
    .action(({ agent }: { agent?: string }, command) =>
      run(command, async (invocation) => {
        const agents = await invocation.call('agent.list', {}, { progress: 'quiet' })
        const mine = agents.find((one) => (agent === undefined ? one.isDefault : one.name === agent))
        if (mine === undefined) {
          throw new RookeryError('AGENT_UNKNOWN', 'no agent of this node has that name', {
            kind: 'notFound',
            field: '--agent',
            value: agent,
            remedy: 'list them with `rookery agent list`'
          })
        }
        if (mine.url === undefined || mine.tokenFile === undefined) {
          throw new RookeryError('HTTP_OFF', 'the node serves no HTTP, which MCP goes by', {
            kind: 'unavailable',
            field: 'http.enabled',
            value: false,
            remedy: 'set http.enabled to true and start the node again'
          })
        }
        const token = readFileSync(mine.tokenFile, 'utf8').trim()
        const { bridge } = await import('../mcp-bridge.ts')
        await bridge(new URL('/mcp', mine.url), token, invocation.signal)
        return 0
      })
    )
}
