import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { RookeryError } from '../errors.ts'
import { writePrivateFile } from '../platform/files.ts'
import { LAUNCHD_LABEL, launchdPlist, type ServiceSpec, systemdUnit } from './unit-files.ts'

const run = promisify(execFile)
const COMMAND_MS_MAX = 30_000

export interface ServicePlan {
  manager: 'systemd' | 'launchd'
  file: string
  text: string
  /** commands that begin the service once the file is there, each with its arguments */
  begin: string[][]
  /** commands that end it before the file goes */
  end: string[][]
  /** what a person should know besides */
  notes: string[]
}

const SYSTEMD_NAME = 'rookery.service'

/**
 * How a node becomes a service here. Nothing is written yet.
 * @throws RookeryError `SERVICE_UNSUPPORTED`
 */
export function planService(spec: ServiceSpec, at: { platform: NodeJS.Platform; home: string; uid: number }): ServicePlan {
  if (at.platform === 'linux') {
    const user = spec.scope === 'user' ? ['--user'] : []
    return {
      manager: 'systemd',
      file: spec.scope === 'user' ? join(at.home, '.config/systemd/user', SYSTEMD_NAME) : join('/etc/systemd/system', SYSTEMD_NAME),
      text: systemdUnit(spec),
      begin: [
        ['systemctl', ...user, 'daemon-reload'],
        ['systemctl', ...user, 'enable', '--now', SYSTEMD_NAME]
      ],
      end: [['systemctl', ...user, 'disable', '--now', SYSTEMD_NAME]],
      notes:
        spec.scope === 'user'
          ? ['a service of a user ends with the last login; `loginctl enable-linger` lets it run on']
          : [`the account "rookery" must exist and own ${spec.dataDir}: useradd --system --home-dir ${spec.dataDir} rookery`]
    }
  }
  if (at.platform === 'darwin' && spec.scope === 'user') {
    const file = join(at.home, 'Library/LaunchAgents', `${LAUNCHD_LABEL}.plist`)
    return {
      manager: 'launchd',
      file,
      text: launchdPlist(spec),
      begin: [['launchctl', 'bootstrap', `gui/${at.uid}`, file]],
      end: [['launchctl', 'bootout', `gui/${at.uid}/${LAUNCHD_LABEL}`]],
      notes: []
    }
  }
  throw new RookeryError('SERVICE_UNSUPPORTED', `there is no ${spec.scope} service for ${at.platform}`, {
    kind: 'usage',
    field: spec.scope === 'system' ? '--system' : 'platform',
    value: at.platform,
    remedy: 'let the service manager of this system run `rookery start`'
  })
}

/** Writes the file and begins the service. @throws RookeryError `SERVICE_EXISTS`, `SERVICE_COMMAND_FAILED`, with the file left in place */
export async function installService(plan: ServicePlan, { replace, begin }: { replace: boolean; begin: boolean }): Promise<void> {
  if (existsSync(plan.file) && !replace) {
    throw new RookeryError('SERVICE_EXISTS', `${plan.file} is there already`, {
      kind: 'conflict',
      field: 'file',
      value: plan.file,
      remedy: 'take it away with `rookery service uninstall`, or write over it with --replace'
    })
  }
  mkdirSync(dirname(plan.file), { recursive: true })
  writePrivateFile(plan.file, plan.text)
  if (begin) for (const command of plan.begin) await call(command)
}

/** Ends the service and takes its file away; data stay. @throws RookeryError `SERVICE_UNKNOWN` */
export async function uninstallService(plan: ServicePlan): Promise<void> {
  if (!existsSync(plan.file)) {
    throw new RookeryError('SERVICE_UNKNOWN', `there is no ${plan.file}`, {
      kind: 'notFound',
      field: 'file',
      value: plan.file,
      remedy: 'nothing to do; a service of the machine is named with --system'
    })
  }
  for (const command of plan.end) await call(command)
  rmSync(plan.file)
}

async function call(command: readonly string[]): Promise<void> {
  const [program = '', ...argv] = command
  try {
    await run(program, argv, { timeout: COMMAND_MS_MAX })
  } catch (cause) {
    const { stderr = '', code } = cause as { stderr?: string; code?: unknown }
    const why = stderr.trim().split('\n')[0] || String(code)
    throw new RookeryError('SERVICE_COMMAND_FAILED', `${command.join(' ')}: ${why}`, {
      kind: 'unavailable',
      field: 'command',
      value: command.join(' '),
      remedy: 'run it by hand; the file is in place',
      cause
    })
  }
}
