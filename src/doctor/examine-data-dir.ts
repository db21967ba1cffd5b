import { chmodSync, existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { findEndpoint, SOCKET_FILE, TCP_FILE } from '../api/control-endpoint.ts'
import { RookeryError } from '../errors.ts'
import { AGENTS_DIR, AgentFiles } from '../identity/agent-file.ts'
import { loadNodeKey } from '../identity/node-key.ts'
import { removeFile } from '../platform/files.ts'
import type { Random } from '../platform/random.ts'
import { LOCK_FILE, readLockFile } from '../store/lock-file.ts'
import { openStore, STORE_DIR } from '../store/open-store.ts'
import { processStart } from '../store/process-start.ts'
import type { Fixable } from './finding.ts'

/** What others may not read, and folders that others may not enter. Settings hold no secrets, but who a node meets is nobody's business either. */
const PRIVATE_FILES = /(\.(key|keys|token|json|yaml|sock)|\.tmp|\.new)$/
/** Left by a write that was cut off: `NAME.PID.tmp`. */
const LEFTOVER = /\.(\d{1,10})\.tmp$/
const SHOWN_MAX = 5

/** The keys that the node and its agents are. */
export function identityFindings(dataDir: string, components: { crypto: CryptoProvider; random: Random }): Fixable[] {
  const found: Fixable[] = []
  try {
    loadNodeKey(dataDir, components.crypto, 'leave')
  } catch (error) {
    found.push(ofError(error, ['NOT_INITIALISED', 'IDENTITY_MISSING']))
    if (found[0]?.code === 'NOT_INITIALISED') return found
  }
  if (!existsSync(join(dataDir, AGENTS_DIR))) return found
  try {
    for (const name of namesIn(join(dataDir, AGENTS_DIR))) {
      if (name.endsWith('.json')) new AgentFiles(dataDir, components).check(name.slice(0, -'.json'.length))
    }
  } catch (error) {
    found.push(ofError(error, []))
  }
  return found
}

function ofError(error: unknown, codes: readonly Fixable['code'][]): Fixable {
  if (!(error instanceof RookeryError)) throw error
  const code = codes.find((one) => one === error.code) ?? 'KEY_FILE_INVALID'
  return {
    code,
    severity: 'problem',
    title: error.message,
    evidence: error.field === undefined ? [] : [error.field],
    remedy: error.remedy ?? 'restore the data directory from a backup'
  }
}

/** Files and folders that others of this machine may read. Windows has no such modes. */
export function modeFindings(dataDir: string): Fixable[] {
  if (process.platform === 'win32' || !existsSync(dataDir)) return []
  const wide: { path: string; mode: number; wanted: number }[] = []
  const look = (path: string) => {
    // Behind a link it is the file that it leads to which others may read.
    const state = statSync(path, { throwIfNoEntry: false })
    if (state === undefined || state.uid !== process.getuid?.()) return
    const wanted = state.isDirectory() ? 0o700 : 0o600
    if ((state.mode & 0o077) !== 0) wide.push({ path, mode: state.mode & 0o777, wanted })
  }
  look(dataDir)
  for (const folder of ['', AGENTS_DIR]) {
    for (const name of namesIn(join(dataDir, folder))) if (PRIVATE_FILES.test(name)) look(join(dataDir, folder, name))
  }
  for (const folder of [AGENTS_DIR, STORE_DIR]) if (existsSync(join(dataDir, folder))) look(join(dataDir, folder))
  if (wide.length === 0) return []
  const octal = (mode: number) => mode.toString(8).padStart(3, '0')
  return [
    {
      code: 'FILE_MODES',
      severity: 'problem',
      title: 'others on this machine may read keys or tokens of this node',
      evidence: shown(wide.map(({ path, mode, wanted }) => `${path} is ${octal(mode)}, should be ${octal(wanted)}`)),
      remedy: `chmod 700 on the folders, 600 on the files; if others could log in meanwhile, rotate the agents (\`rookery agent rotate\`)`,
      fix: 'takes the rights of group and others away',
      mend: () => {
        for (const { path, wanted } of wide) chmodSync(path, wanted)
      }
    }
  ]
}

/**
 * What a process that is gone left behind. Only called where no node answers.
 * @param isGone - whether no process has this pid; default: asks the system
 */
export function leftoverFindings(dataDir: string, isGone: (pid: number) => boolean = pidIsGone): Fixable[] {
  const found: Fixable[] = []
  const lock = readLockFile(dataDir)
  const isSame = lock !== undefined && lock.processStart !== undefined && processStart(lock.pid) === lock.processStart
  if (lock !== undefined && !isSame) {
    found.push({
      code: 'STALE_LOCK',
      severity: 'warning',
      title: `${LOCK_FILE} names a node that runs no more`,
      evidence: [`pid ${lock.pid}, started ${new Date(lock.startedAtMs).toISOString()}`],
      remedy: `nothing: the next start replaces it; or remove ${join(dataDir, LOCK_FILE)}`,
      fix: `removes ${LOCK_FILE}`,
      mend: () => removeFile(join(dataDir, LOCK_FILE))
    })
  }
  const endpoint = endpointOf(dataDir)
  if (endpoint !== undefined && existsSync(endpoint)) {
    found.push({
      code: 'STALE_SOCKET',
      severity: 'warning',
      title: 'nobody answers at the control socket',
      evidence: [endpoint],
      remedy: `nothing: the next start replaces it; or remove ${endpoint}`,
      fix: 'removes the socket',
      mend: () => removeFile(endpoint)
    })
  }
  const files = ['', AGENTS_DIR].flatMap((folder) => {
    const names = namesIn(join(dataDir, folder)).filter((name) => {
      const pid = LEFTOVER.exec(name)?.[1]
      return pid !== undefined && isGone(Number(pid))
    })
    return names.map((name) => join(dataDir, folder, name))
  })
  if (files.length > 0) {
    found.push({
      code: 'LEFTOVER_FILES',
      severity: 'warning',
      title: 'writes that were cut off left files behind, which may hold keys',
      evidence: shown(files),
      remedy: 'remove them: what they were to replace is whole',
      fix: 'removes them',
      mend: () => {
        for (const file of files) removeFile(file)
      }
    })
  }
  return found
}

/** Whether the store opens, as a start would do it. Only called where no node runs. */
export async function storeFindings(dataDir: string, software: string): Promise<Fixable[]> {
  if (!existsSync(join(dataDir, STORE_DIR))) return []
  try {
    await (await openStore(dataDir, { software })).close()
    return []
  } catch (error) {
    if (!(error instanceof RookeryError)) throw error
    const { message, remedy = 'restore the data directory from a backup', code } = error
    return [{ code: 'STORE_DAMAGED', severity: 'problem', title: message, evidence: [code], remedy }]
  }
}

function endpointOf(dataDir: string): string | undefined {
  if (existsSync(join(dataDir, TCP_FILE))) return join(dataDir, TCP_FILE)
  try {
    const endpoint = findEndpoint(dataDir)
    return endpoint?.kind === 'socket' ? endpoint.path : undefined
  } catch {
    return join(dataDir, SOCKET_FILE)
  }
}

function pidIsGone(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

function shown(lines: readonly string[]): string[] {
  return lines.length <= SHOWN_MAX ? [...lines] : [...lines.slice(0, SHOWN_MAX), `and ${lines.length - SHOWN_MAX} more`]
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
