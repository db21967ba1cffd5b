import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * When the process with this pid started, in whatever unit the platform has: only ever compared for equality. With the pid it names one process,
 * since pids are used again (F091). Undefined where there is no such process or the platform does not tell.
 */
export function processStart(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid < 1) return undefined
  if (process.platform === 'linux') return linuxStart(pid)
  if (process.platform === 'win32') return undefined
  try {
    const text = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
    return text === '' ? undefined : text
  } catch {
    return undefined
  }
}

/** Field 22 of /proc/PID/stat, clock ticks since boot, with the boot's id. The second field is a name that may hold spaces and brackets. */
function linuxStart(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
    if (ticks === undefined || !/^\d+$/.test(ticks)) return undefined
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return `${boot}:${ticks}`
  } catch {
    return undefined
  }
}
