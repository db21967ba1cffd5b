import { Command, CommanderError } from 'commander'
import { EXIT_CODES, RookeryError } from '../errors.ts'
import { version } from '../version.ts'
import { registerAgent } from './commands/agent.ts'
import { registerApprove } from './commands/approve.ts'
import { registerAttach } from './commands/attach.ts'
import { registerBackup } from './commands/backup.ts'
import { registerConfig } from './commands/config.ts'
import { registerDashboard } from './commands/dashboard.ts'
import { registerDemo } from './commands/demo.ts'
import { registerDiscover } from './commands/discover.ts'
import { registerDisk } from './commands/disk.ts'
import { registerDoctor } from './commands/doctor.ts'
import { registerFind } from './commands/find.ts'
import { registerFriends } from './commands/friends.ts'
import { registerGrant } from './commands/grant.ts'
import { registerGroup } from './commands/group.ts'
import { registerIdentity } from './commands/identity.ts'
import { registerInbox } from './commands/inbox.ts'
import { registerInit } from './commands/init.ts'
import { registerMcp } from './commands/mcp.ts'
import { registerMode } from './commands/mode.ts'
import { registerOutbox } from './commands/outbox.ts'
import { registerPoint } from './commands/point.ts'
import { registerPush } from './commands/push.ts'
import { registerQueue } from './commands/queue.ts'
import { registerSend } from './commands/send.ts'
import { registerService } from './commands/service.ts'
import { registerSession } from './commands/session.ts'
import { registerSim } from './commands/sim.ts'
import { registerSleepWake } from './commands/sleep-wake.ts'
import { registerSpace } from './commands/space.ts'
import { registerStanding } from './commands/standing.ts'
import { registerStart } from './commands/start.ts'
import { registerState } from './commands/state.ts'
import { registerStatus } from './commands/status.ts'
import { registerTask } from './commands/task.ts'
import { registerTop } from './commands/top.ts'
import { type CliContext, Invocation, type RunCommand } from './context.ts'
import { Output } from './output.ts'

const EXIT_CODE_HELP = `
Exit codes: ${Object.entries(EXIT_CODES)
  .map(([kind, code]) => `${code} ${kind}`)
  .join(', ')}`

/**
 * Runs one command line and gives its exit code. Never throws and never ends the process, so tests call it directly.
 */
export async function main(argv: readonly string[], given: Partial<CliContext> = {}): Promise<number> {
  const interrupt = new AbortController()
  const context: CliContext = {
    streams: given.streams ?? { stdout: process.stdout, stderr: process.stderr },
    env: given.env ?? process.env,
    signal: given.signal ?? interrupt.signal
  }
  if (given.streams === undefined) for (const stream of [process.stdout, process.stderr]) tolerateClosedPipe(stream)
  const interrupted = () => interrupt.abort(new RookeryError('INTERRUPTED', 'interrupted', { kind: 'interrupted' }))
  let exitCode: number = EXIT_CODES.ok

  const run: RunCommand = async (command, action) => {
    const invocation = new Invocation(context, command)
    // `start` handles its own signals: a second Ctrl-C means something else there.
    const ownSignals = command.name() === 'start' || given.signal !== undefined
    if (!ownSignals) for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, interrupted)
    try {
      exitCode = (await action(invocation)) ?? EXIT_CODES.ok
    } catch (error) {
      exitCode = invocation.out.failure(context.signal.aborted ? context.signal.reason : error)
    } finally {
      invocation.out.done()
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.removeListener(signal, interrupted)
    }
  }

  const program = buildProgram(context, run)
  try {
    await program.parseAsync(argv as string[], { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return EXIT_CODES.ok
    if (error.code === 'commander.help') return EXIT_CODES.usage
    const out = new Output(context.streams, { json: argv.includes('--json'), color: argv.includes('--no-color') ? 'never' : 'auto' })
    return out.failure(
      new RookeryError('USAGE', error.message.replace(/^error: /, ''), {
        kind: 'usage',
        remedy: 'see `rookery --help`, or `rookery COMMAND --help` for an example'
      })
    )
  }
  return exitCode
}

function buildProgram(context: CliContext, run: RunCommand): Command {
  const program = new Command('rookery')
    .description('The node beside an AI agent: finds agents by topic, keeps sessions with them over QUIC, delivers to those that sleep.')
    .version(version, '-V, --version', 'print the version')
    .option('-d, --data <dir>', 'data directory (default: $ROOKERY_HOME or ~/.rookery)')
    .option('-c, --config <file>', 'configuration file (default: config.yaml in the data directory)')
    .option('--json', 'print JSON for programs')
    .option('--no-color', 'no colour, also on a terminal')
    .configureHelp({ showGlobalOptions: true })
    .addHelpText(
      'after',
      `${EXIT_CODE_HELP}

Example:
  rookery demo                                              see three nodes meet, talk, sleep and wake
  rookery init --agent bob && rookery start                 run a node of your own
  rookery space join org.agentnet/marketplace.energy@1      join a space by topic`
    )
    .exitOverride()
    .configureOutput({
      writeOut: (text) => context.streams.stdout.write(text),
      writeErr: (text) => context.streams.stderr.write(text),
      outputError: () => {} // told by main(), in the form that the caller asked for
    })
  for (const register of [
    registerInit,
    registerStart,
    registerConfig,
    registerStatus,
    registerDashboard,
    registerTop,
    registerDoctor,
    registerAgent,
    registerSpace,
    registerFind,
    registerDiscover,
    registerPoint,
    registerSession,
    registerState,
    registerGroup,
    registerSend,
    registerTask,
    registerOutbox,
    registerInbox,
    registerMcp,
    registerSleepWake,
    registerMode,
    registerAttach,
    registerApprove,
    registerFriends,
    registerGrant,
    registerPush,
    registerQueue,
    registerStanding,
    registerService,
    registerBackup,
    registerIdentity,
    registerDisk,
    registerDemo,
    registerSim
  ]) {
    register(program, run)
  }
  for (const command of descendants(program)) command.exitOverride().configureOutput(program.configureOutput())
  return program
}

/** `rookery … | head` ends the reading side first: what is left to say is then said to nobody. */
function tolerateClosedPipe(stream: NodeJS.WriteStream): void {
  if (!stream.listeners('error').includes(ignoreClosedPipe)) stream.on('error', ignoreClosedPipe)
}

function ignoreClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
}

function descendants(command: Command): Command[] {
  return command.commands.flatMap((child) => [child, ...descendants(child)])
}

/** All commands as they are declared; running one of them does nothing. For documents and tests. */
export function commandTree(): Command {
  const context: CliContext = { streams: { stdout: process.stdout, stderr: process.stderr }, env: {}, signal: new AbortController().signal }
  return buildProgram(context, async () => {})
}

/** Names of all commands that do something, as one types them after `rookery`. */
export function commandNames(): string[] {
  const named = (command: Command, before: string): string[] =>
    command.commands.flatMap((child) => {
      const name = `${before}${child.name()}`
      const does = child.commands.length === 0 || (child as { _actionHandler?: unknown })._actionHandler != null
      return [...(does ? [name] : []), ...named(child, `${name} `)]
    })
  return named(commandTree(), '')
}
