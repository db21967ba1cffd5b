import { createSocket } from 'node:dgram'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { createServer } from 'node:net'

export interface PortHolder {
  pid: number
  /** its command, as far as it may be seen */
  command: string
}

/** Whether a port can be listened on now. @throws what is no `EADDRINUSE` is none of our business and counts as free */
export async function isPortTaken({ host, port, transport }: { host: string; port: number; transport: 'tcp' | 'udp' }): Promise<boolean> {
  return await new Promise((resolve) => {
    const failed = (error: NodeJS.ErrnoException) => resolve(error.code === 'EADDRINUSE')
    if (transport === 'tcp') {
      const server = createServer()
      server.once('error', failed)
      server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(false)))
      return
    }
    const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
    socket.once('error', failed)
    socket.bind({ port, address: host, exclusive: true }, () => socket.close(() => resolve(false)))
  })
}

/** Who listens on a port, where the system tells: on Linux, of this user's own processes, or of all for root. */
export function holderOfPort(port: number, transport: 'tcp' | 'udp', proc = '/proc'): PortHolder | undefined {
  const inodes = new Set([`${transport}`, `${transport}6`].flatMap((name) => inodesOf(`${proc}/net/${name}`, port, transport)))
  if (inodes.size === 0) return undefined
  for (const pid of namesIn(proc).filter((name) => /^\d+$/.test(name))) {
    for (const fd of namesIn(`${proc}/${pid}/fd`)) {
      const inode = /^socket:\[(\d+)\]$/.exec(linkOf(`${proc}/${pid}/fd/${fd}`))?.[1]
      if (inode !== undefined && inodes.has(inode)) return { pid: Number(pid), command: commandOf(`${proc}/${pid}/cmdline`) }
    }
  }
  return undefined
}

/** Rows of /proc/net: `sl local_address rem_address st …`, the tenth field an inode; 0A is LISTEN, 07 an unconnected UDP socket. */
function inodesOf(file: string, port: number, transport: 'tcp' | 'udp'): string[] {
  const wanted = port.toString(16).toUpperCase().padStart(4, '0')
  const state = transport === 'tcp' ? '0A' : '07'
  return textOf(file)
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[1]?.endsWith(`:${wanted}`) === true && fields[3] === state)
    .flatMap((fields) => fields[9] ?? [])
}

function commandOf(file: string): string {
  return textOf(file).split('\0').join(' ').trim().slice(0, 200)
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
