import type { RegisterCommand } from '../context.ts'
import { durationMs, pause } from '../values.ts'

/** A lease is renewed when a third of it has passed, so that one late answer costs nothing. */
const RENEW_PARTS = 3

export const registerAttach: RegisterCommand = (program, run) => {
  program
    .command('attach')
    .description('say that a process of an agent is at work, until Ctrl-C: in the modes session and hourly_wake it is reachable only then')
    .option('--agent <agent>', 'a local agent')
    .option('--lease <duration>', 'how long it stays attached after this command was killed, 1s to 1h', durationMs, 30_000)
    .addHelpText('after', '\nWith --json each state is one line.\n\nExample:\n  rookery attach --agent bob --lease 10s')
    .action(({ agent, lease }: { agent?: string; lease: number }, command) =>
      run(command, async (invocation) => {
        const { out, signal } = invocation
        const held = await invocation.call('agent.attach', { leaseMs: lease, ...(agent === undefined ? {} : { agent }) })
        out.jsonLine({ state: 'attached', ...held })
        out.line(`attached to ${held.agent}, Ctrl-C detaches`)
        try {
          for (;;) {
            await pause(lease / RENEW_PARTS, signal)
            if (signal.aborted) break
            await invocation.call('agent.renew', { id: held.id })
          }
        } finally {
          // The command's own signal has fired; the node answers this one all the same.
          await invocation.callAfterAbort('agent.detach', { id: held.id }).catch(() => undefined)
        }
        out.jsonLine({ state: 'detached', ...held })
        out.line(`detached from ${held.agent}`)
        return 0
      })
    )
}
