import type { Server as HttpServer } from 'node:http'
import type { Server, Socket } from 'node:net'
import type { Listener, Transport } from '@libp2p/interface'
import type { Clock } from '../platform/clock.ts'

/** From the first byte of TCP to the upgrade to a WebSocket; what comes then has libp2p's own time. */
export const UPGRADE_MS = 10_000
/** Connections of one listener that were not upgraded yet, of one address and in all; the next is shut. */
export const WAITING_PER_ADDRESS_MAX = 32
export const WAITING_MAX = 512

/** What the packaged listener keeps to itself. */
interface Servers {
  server: Server
  http?: HttpServer
  https?: HttpServer
}

/**
 * Bounds what comes before a WebSocket is one. The packaged listener hands each TCP connection to an HTTP server that never listens, so that none of
 * that server's times hold: a connection that says nothing, or half of a request, would stay for good.
 */
export function withPromptUpgrades(transport: Transport, clock: Clock): Transport {
  const createListener = transport.createListener.bind(transport)
  transport.createListener = (options) => guarded(createListener(options), clock)
  return transport
}

function guarded(listener: Listener, clock: Clock): Listener {
  const servers = listener as unknown as Servers
  /** by address and port: takes the connection for upgraded */
  const waiting = new Map<string, () => void>()
  servers.server.prependListener('connection', (socket: Socket) => {
    const { remoteAddress = '', remotePort = 0 } = socket
    const ofAddress = [...waiting.keys()].filter((name) => name.startsWith(`${remoteAddress} `)).length
    if (waiting.size >= WAITING_MAX || ofAddress >= WAITING_PER_ADDRESS_MAX) return void socket.destroy()
    const name = `${remoteAddress} ${remotePort}`
    const cancel = clock.after(UPGRADE_MS, () => socket.destroy())
    const settle = () => {
      cancel()
      waiting.delete(name)
    }
    waiting.set(name, settle)
    socket.once('close', settle)
    socket.on('error', () => {}) // said to nobody before its first byte
  })
  const listen = listener.listen.bind(listener)
  listener.listen = async (addr) => {
    await listen(addr)
    for (const server of [servers.http, servers.https]) {
      server?.prependListener('upgrade', ({ socket }) => waiting.get(`${socket.remoteAddress} ${socket.remotePort}`)?.())
    }
  }
  return listener
}
