import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { LoadedConfig } from '../config/load.ts'
import { RookeryError } from '../errors.ts'
import { reserveOf } from '../store/disk-room.ts'
import type { Fixable } from './finding.ts'
import { holderOfPort, isPortTaken, type PortHolder } from './port-holder.ts'

/** A file that was written later than now says that the clock went back. */
const CLOCK_BEHIND_MAX_MS = 120_000
/** No node ran before this software was written. */
const OLDEST_NOW_MS = Date.UTC(2025, 0, 1)

/** @returns the settings, or what is wrong with them and where */
export function configFindings(load: () => LoadedConfig): { loaded: LoadedConfig } | { finding: Fixable } {
  try {
    return { loaded: load() }
  } catch (error) {
    if (!(error instanceof RookeryError)) throw error
    const { message, field, remedy = 'mend the settings file' } = error
    const finding: Fixable = {
      code: 'CONFIG_INVALID',
      severity: 'problem',
      title: message,
      evidence: field === undefined ? [] : [field],
      remedy: `${remedy}; \`rookery config check\` tells when it is right`
    }
    return { finding }
  }
}

/** Ports that were set by hand and are taken by somebody else. Only called where no node runs. */
export async function portFindings(
  { config }: Pick<LoadedConfig, 'config'>,
  look: { isTaken: typeof isPortTaken; holder: typeof holderOfPort } = { isTaken: isPortTaken, holder: holderOfPort }
): Promise<Fixable[]> {
  const found: Fixable[] = []
  for (const { field, host, port, transport } of portsOf(config)) {
    if (port === 0 || !(await look.isTaken({ host, port, transport }))) continue
    const holder = look.holder(port, transport)
    found.push({
      code: 'PORT_IN_USE',
      severity: 'problem',
      title: `${field}: port ${port} (${transport}) of ${host} is taken`,
      evidence: [whoText(holder)],
      remedy: `stop that process, or set ${field} to another port; leave it out and the node takes a free one`
    })
  }
  return found
}

function whoText(holder: PortHolder | undefined): string {
  return holder === undefined
    ? 'by a process that this user may not see (as root: lsof -i)'
    : `by pid ${holder.pid}${holder.command === '' ? '' : `: ${holder.command}`}`
}

type PortOf = { field: string; host: string; port: number; transport: 'tcp' | 'udp' }

function portsOf({ http, ops, listen }: LoadedConfig['config']): PortOf[] {
  const ports: PortOf[] = []
  if (http.enabled && http.port !== undefined) ports.push({ field: 'http.port', host: http.host, port: http.port, transport: 'tcp' })
  if (ops.enabled && ops.port !== undefined) ports.push({ field: 'ops.port', host: ops.host, port: ops.port, transport: 'tcp' })
  for (const [i, addr] of (listen ?? []).entries()) {
    const [, , host, transport, port] = /^\/(ip4|ip6)\/([^/]+)\/(tcp|udp)\/(\d+)/.exec(addr) ?? []
    if (host !== undefined) ports.push({ field: `listen[${i}]`, host, port: Number(port), transport: transport as 'tcp' | 'udp' })
  }
  return ports
}

/** A clock that reads earlier than what this very machine wrote, or than any node ran. */
export function clockFindings(dataDir: string, nowMs: number): Fixable[] {
  const newest = newestIn(dataDir)
  const behindMs = newest.atMs - nowMs
  const why =
    nowMs < OLDEST_NOW_MS
      ? `it reads ${new Date(nowMs).toISOString()}`
      : behindMs > CLOCK_BEHIND_MAX_MS
        ? `it reads ${new Date(nowMs).toISOString()}, but ${newest.path} was written at ${new Date(newest.atMs).toISOString()}`
        : undefined
  if (why === undefined) return []
  return [
    {
      code: 'CLOCK_WRONG',
      severity: 'problem',
      title: "this machine's clock went back",
      evidence: [why],
      remedy:
        'set the clock by NTP (on Linux: timedatectl set-ntp true), then start the node; `rookery doctor network` compares it with peers'
    }
  ]
}

function newestIn(dataDir: string): { path: string; atMs: number } {
  let newest = { path: dataDir, atMs: 0 }
  for (const folder of [dataDir, join(dataDir, 'store'), join(dataDir, 'agents')]) {
    for (const name of namesIn(folder)) {
      try {
        const { mtimeMs } = lstatSync(join(folder, name))
        if (mtimeMs > newest.atMs) newest = { path: join(folder, name), atMs: mtimeMs }
      } catch {
        // gone meanwhile
      }
    }
  }
  return newest
}

/** @param space - of the volume that the data directory lies on */
export function diskFindings(
  { freeBytes, totalBytes }: { freeBytes: number; totalBytes: number },
  reserveSetting: number | undefined
): Fixable[] {
  const reserveBytes = reserveSetting ?? reserveOf(totalBytes)
  if (totalBytes === 0 || freeBytes >= reserveBytes * 2) return []
  const full = freeBytes < reserveBytes
  return [
    {
      code: full ? 'DISK_FULL' : 'DISK_LOW',
      severity: full ? 'problem' : 'warning',
      title: full ? 'the disk is full but for the reserve: the node takes nothing new' : 'the disk will soon be full',
      evidence: [`${mib(freeBytes)} free, ${mib(reserveBytes)} kept in reserve (store.reserveBytes)`],
      remedy: 'free space on that volume; `rookery disk` says what this node uses, `rookery compact` gives back what was deleted'
    }
  ]
}

/** A node that nobody told whom to meet, and that does not look around either. */
export function bootstrapFindings({ config }: Pick<LoadedConfig, 'config'>): Fixable[] {
  if (config.bootstrap.length > 0 || config.mdns) return []
  return [
    {
      code: 'BOOTSTRAP_MISSING',
      severity: 'warning',
      title: 'this node knows nobody to join through',
      evidence: ['bootstrap is empty and mdns is off'],
      remedy:
        'name a node that runs under bootstrap, or set mdns to true to find those of the same link; the first node of a network needs neither'
    }
  ]
}

function mib(bytes: number): string {
  return `${Math.floor(bytes / 1_048_576)} MiB`
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
