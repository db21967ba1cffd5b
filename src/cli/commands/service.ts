import { homedir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { dataDirOf } from '../../config/load.ts'
import { installService, planService, type ServicePlan, uninstallService } from '../../service/install-service.ts'
import type { Invocation, RegisterCommand } from '../context.ts'

interface ServiceOptions {
  system?: true
  replace?: true
  begin: boolean
}

const LAUNCHER = fileURLToPath(new URL('../../../bin/rookery.js', import.meta.url))

/** Compiled files lie one folder deeper than sources. */
const launcherPath = () =>
  import.meta.url.endsWith('.ts') ? LAUNCHER : fileURLToPath(new URL('../../../../bin/rookery.js', import.meta.url))

function planOf({ options, env }: Invocation, system: boolean): ServicePlan {
  const dataDir = options.data === undefined && system ? '/var/lib/rookery' : dataDirOf(options.data, env)
  return planService(
    { nodePath: process.execPath, launcherPath: launcherPath(), dataDir, scope: system ? 'system' : 'user' },
    { platform: process.platform, home: env.HOME || homedir(), uid: process.getuid?.() ?? 0 }
  )
}

export const registerService: RegisterCommand = (program, run) => {
  const service = program.command('service').description('run the node as a service of systemd or launchd')
  service.addHelpText('after', '\nExample:\n  rookery service install')

  service
    .command('install')
    .description("write the service's file and begin it: it starts again after a fault and with the machine")
    .option('--system', 'a service of the machine, under the account "rookery" (default: of this user)')
    .option('--replace', 'write over a file that is there')
    .option('--no-begin', 'write the file only')
    .addHelpText('after', '\nExample:\n  rookery service install --data ~/.rookery')
    .action((options: ServiceOptions, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const plan = planOf(invocation, options.system === true)
        await installService(plan, { replace: options.replace === true, begin: options.begin })
        out.result({ manager: plan.manager, file: plan.file, begun: options.begin, notes: plan.notes }, () => {
          out.line(`${out.paint.green('written')}  ${plan.file}`)
          if (!options.begin) for (const one of plan.begin) out.line(`then     ${one.join(' ')}`)
          for (const note of plan.notes) out.line(`note     ${note}`)
        })
      })
    )

  service
    .command('show')
    .description('print the file that install would write')
    .option('--system', 'of a service of the machine')
    .addHelpText('after', '\nExample:\n  rookery service show --system')
    .action((options: ServiceOptions, command) =>
      run(command, async (invocation) => {
        const plan = planOf(invocation, options.system === true)
        invocation.out.result(plan, () => invocation.out.line(plan.text.trimEnd()))
      })
    )

  service
    .command('uninstall')
    .description('end the service and take its file away; keys, store and settings stay')
    .option('--system', 'the service of the machine')
    .addHelpText('after', '\nExample:\n  rookery service uninstall')
    .action((options: ServiceOptions, command) =>
      run(command, async (invocation) => {
        const plan = planOf(invocation, options.system === true)
        await uninstallService(plan)
        invocation.out.result({ manager: plan.manager, file: plan.file }, () => invocation.out.line(`taken away  ${plan.file}`))
      })
    )
}
