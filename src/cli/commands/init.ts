import { existsSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { eid, eidToDid } from '../../../protocol/identity/eid.ts'
import { AGENT_NAME, BUILTIN_HANDLERS, handlerName } from '../../api/methods.ts'
import { configFileOf } from '../../config/config-file.ts'
import { dataDirOf } from '../../config/load.ts'
import { nodeCrypto } from '../../crypto/node-crypto.ts'
import { RookeryError } from '../../errors.ts'
import { AgentFiles } from '../../identity/agent-file.ts'
import { newAgentRecord } from '../../identity/agents.ts'
import { initDataDir } from '../../identity/init.ts'
import { systemClock } from '../../platform/clock.ts'
import { systemRandom } from '../../platform/random.ts'
import type { RegisterCommand } from '../context.ts'

const CONFIG_TEMPLATE = `# Settings of this node; every one has a default. Environment variables (ROOKERY_HTTP_PORT) and flags win over this file.
# network: lan            # lan dials and publishes private addresses, public does neither
# bootstrap: []           # multiaddrs of peers to join through
# mdns: false             # find peers on the local link
# localPoints:            # points of the local link alone
#   enabled: false
# http:
#   port: 4710            # A2A endpoints of the agents, on loopback
`

/** The flag of the next command line that names the same node. */
const dataFlag = (dir: string | undefined) => (dir === undefined ? '' : ` --data ${/^[\w./:-]+$/.test(dir) ? dir : JSON.stringify(dir)}`)

/** A path becomes absolute, as the node may run elsewhere. */
export function handlerOf(text: string): string {
  return BUILTIN_HANDLERS.some((one) => one === text) ? text : resolve(text)
}

/** No node runs yet that could say so. @throws RookeryError `HANDLER_INVALID` */
function checkHandler(handler: string): void {
  const fits = handlerName.safeParse(handler).success
  if (fits && (BUILTIN_HANDLERS.some((one) => one === handler) || existsSync(handler))) return
  throw new RookeryError('HANDLER_INVALID', fits ? `there is no file ${handler}` : `${handler} is no handler`, {
    kind: 'usage',
    field: '--handler',
    value: handler,
    remedy: `name ${BUILTIN_HANDLERS.join(', ')}, or the path of an ES module (.mjs, .js, .mts, .ts)`
  })
}

export const registerInit: RegisterCommand = (program, run) => {
  program
    .command('init')
    .description("make a data directory: the node's key, a commented config.yaml and, with --agent, a first agent")
    .option('--agent <name>', 'name of a first agent')
    .option('--description <text>', 'what it does, shown on its card')
    .option('--handler <handler>', 'manual, echo, digest, or the path of an ES module', handlerOf, 'manual')
    .addHelpText('after', '\nExample:\n  rookery init --agent alice --handler echo')
    .action((options: { agent?: string; description?: string; handler: string }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const dataDir = dataDirOf(invocation.options.data, invocation.env)
        const { agent: name, description, handler } = options
        if (name !== undefined && !AGENT_NAME.test(name)) {
          throw new RookeryError('AGENT_NAME_INVALID', `"${name}" cannot name an agent`, {
            kind: 'usage',
            field: '--agent',
            value: name,
            remedy: 'use 1 to 32 characters of a-z, 0-9 and "-", the first no "-"'
          })
        }
        checkHandler(handler)
        const components = { crypto: nodeCrypto, random: systemRandom }
        const key = initDataDir(dataDir, components)
        const file = configFileOf(dataDir)
        if (!existsSync(file)) writeFileSync(file, CONFIG_TEMPLATE, { mode: 0o600 })
        const agent = name === undefined ? undefined : addFirst(dataDir, { name, description, handler })
        out.result({ dataDir, peer: key.peer, config: file, ...(agent !== undefined ? { agent } : {}) }, () => {
          out.line(`made  ${dataDir}\nnode  ${key.peer}`)
          if (agent !== undefined) out.line(`agent ${out.paint.bold(agent.name)}  ${agent.did}`)
          const at = dataFlag(invocation.options.data)
          out.line(`next  rookery start${at}${agent === undefined ? `, then rookery agent add NAME${at}` : ''}`)
        })
      })
    )
}

/** Before the node first starts there is no store to write to: the agent's files are enough, its reachability is the default. */
function addFirst(
  dataDir: string,
  input: { name: string; description: string | undefined; handler: string }
): { name: string; did: string } {
  const files = new AgentFiles(dataDir, { crypto: nodeCrypto, random: systemRandom })
  const record = newAgentRecord(input, { random: systemRandom, nowMs: systemClock.nowMs(), handler: 'manual' })
  files.saveToken(record.name, systemRandom.bytes(32))
  files.save(record)
  return { name: record.name, did: eidToDid(eid(nodeCrypto.ed25519.publicKey(record.seed))) }
}
