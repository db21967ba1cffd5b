import { existsSync, readdirSync } from 'node:fs'
import { CONFIG_FILES } from '../../config/config-file.ts'
import { dataDirOf, loadConfig } from '../../config/load.ts'
import type { ConfigInput } from '../../config/schema.ts'
import { nodeCrypto } from '../../crypto/node-crypto.ts'
import { runDaemon } from '../../daemon.ts'
import { initDataDir } from '../../identity/init.ts'
import { systemRandom } from '../../platform/random.ts'
import type { RegisterCommand } from '../context.ts'
import { joinAddresses } from '../join-addresses.ts'
import { integer, list } from '../values.ts'

interface StartOptions {
  listen?: string[]
  bootstrap?: string[]
  network?: 'lan' | 'public'
  httpPort?: number
  logLevel?: string
  init?: true
}

/** A folder that held a node once and lost its key is none: making a key there would be a new identity unasked (F100). */
function isUnused(dataDir: string): boolean {
  return !existsSync(dataDir) || readdirSync(dataDir).every((name) => name === 'lost+found' || CONFIG_FILES.some((one) => one === name))
}

export const registerStart: RegisterCommand = (program, run) => {
  program
    .command('start')
    .description('run the node in the foreground until Ctrl-C; a second Ctrl-C stops at once')
    .option('--listen <multiaddrs>', 'where to listen, comma-separated', list)
    .option('--bootstrap <multiaddrs>', 'peers to join through, comma-separated', list)
    .option('--network <scope>', 'lan (private addresses are dialled and published) or public')
    .option('--http-port <port>', "port of the agents' A2A endpoints on loopback; 0 takes any", integer(0, 65_535))
    .option('--log-level <level>', 'debug, info, warn, error or silent')
    .option('--init', 'make the data directory and the key of the node first, where there are none')
    .addHelpText('after', '\nExample:\n  rookery start --bootstrap /ip4/192.0.2.7/udp/4711/quic-v1/p2p/12D3KooW…')
    .action((options: StartOptions, command) =>
      run(command, async (invocation) => {
        const { out, options: globals, env } = invocation
        const flags = {
          listen: options.listen,
          bootstrap: options.bootstrap,
          network: options.network,
          http: { port: options.httpPort },
          logs: { level: options.logLevel }
        } as ConfigInput
        if (options.init === true && isUnused(dataDirOf(globals.data, env)))
          initDataDir(dataDirOf(globals.data, env), { crypto: nodeCrypto, random: systemRandom })
        const load = () => loadConfig({ dataDir: globals.data, configFile: globals.config, env, flags })
        const { config, warnings } = load()
        for (const warning of warnings) out.note(`warning: ${warning}`)
        return runDaemon(config, {
          reload: load,
          onReady: (status) =>
            out.result({ ready: true, status }, () => {
              out.line(`${out.paint.green('ready')}  ${status.node.peer}`)
              for (const address of joinAddresses(status)) out.line(`       ${address}`)
              if (status.http !== undefined) out.line(`A2A    ${status.http.url}`)
              out.line(
                status.agents.length === 0
                  ? 'no agents yet: rookery agent add NAME'
                  : `agents ${status.agents.map((one) => one.name).join(', ')}`
              )
              if (status.network === 'isolated') out.line('no peers yet: give --bootstrap, or wait to be dialled')
            })
        })
      })
    )
}
