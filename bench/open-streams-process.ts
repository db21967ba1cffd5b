/** The readers of the benchmark of open streams, as a process of their own: bare sockets that wait for events. */
import { connect, type Socket } from 'node:net'
import type { ReadersOrder, ReadersReport } from './open-streams.ts'

/** Connections that are opened at a time. */
const AT_ONCE = 50
const FIRST_EVENT = '\ndata:'
const sockets: Socket[] = []

process.on('message', (order: ReadersOrder) => {
  const work = order.what === 'open' ? open(order) : order.what === 'watch' ? watch(order.marker) : close()
  work.then(
    (report) => process.send?.(report),
    (error: Error) => process.send?.({ what: 'failed', error: error.message })
  )
  if (order.what === 'watch') process.send?.({ what: 'watching' })
})
process.on('disconnect', () => process.exit(0))

async function open({ port, path, headers, body, count }: ReadersOrder & { what: 'open' }): Promise<ReadersReport> {
  const lines = Object.entries({ Host: '127.0.0.1', ...headers, 'Content-Length': String(Buffer.byteLength(body)) })
  const request = `POST ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}`).join('\r\n')}\r\n\r\n${body}`
  while (sockets.length < count) {
    const some = Array.from({ length: Math.min(AT_ONCE, count - sockets.length) }, () => connect(port, '127.0.0.1'))
    sockets.push(...some)
    await Promise.all(
      some.map(async (socket) => {
        const begun = seen(socket, FIRST_EVENT)
        socket.write(request)
        await begun
      })
    )
  }
  return { what: 'opened' }
}

async function watch(marker: string): Promise<ReadersReport> {
  return { what: 'seen', atMs: await Promise.all(sockets.map((socket) => seen(socket, marker))) }
}

async function close(): Promise<ReadersReport> {
  for (const socket of sockets.splice(0)) socket.destroy()
  return { what: 'closed' }
}

/** When `marker` was there, in ms since the epoch. */
function seen(socket: Socket, marker: string): Promise<number> {
  return new Promise((resolve, reject) => {
    let held = ''
    const off = () => socket.off('data', onData).off('close', onClose).off('error', onClose)
    const onClose = () => {
      off()
      reject(new Error(`a stream ended: ${held.slice(0, 300)}`))
    }
    const onData = (chunk: Buffer) => {
      held += chunk.toString('latin1')
      if (!held.includes(marker)) return
      off()
      resolve(performance.timeOrigin + performance.now())
    }
    socket.on('data', onData).on('close', onClose).on('error', onClose)
  })
}
