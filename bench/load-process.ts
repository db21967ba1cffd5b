/** The client of the HTTP benchmarks, as a process of its own: bare sockets and prepared requests, so that it is not what is measured. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type LoadOrder, type LoadResult, MARK } from './load.ts'

const FIRST_EVENT = Buffer.from('\ndata:')
const LAST_CHUNK = Buffer.from('\r\n0\r\n\r\n')
let sent = 0

process.on('message', (order) => {
  run(order as LoadOrder).then(
    (result) => process.send?.(result),
    (error: Error) => process.send?.({ error: error.message })
  )
})
process.on('disconnect', () => process.exit(0))
process.send?.('ready')

async function run(order: LoadOrder): Promise<LoadResult> {
  const { port, connections, count } = order
  const sockets = await Promise.all(Array.from({ length: connections }, () => opened(port)))
  const timesMs: number[] = []
  let left = count
  const lane = async (socket: Socket) => {
    while (left-- > 0) {
      const startedMs = performance.now()
      socket.write(requestOf(order))
      const seenMs = await (order.until === 'first-event' ? firstEvent(socket, order.status) : answered(socket, order.status))
      timesMs.push(seenMs - startedMs)
    }
  }
  const startedMs = performance.now()
  await Promise.all(sockets.map(lane))
  const tookMs = performance.now() - startedMs
  for (const socket of sockets) socket.destroy()
  timesMs.sort((a, b) => a - b)
  const at = (fraction: number) => timesMs[Math.min(timesMs.length - 1, Math.floor(timesMs.length * fraction))] as number
  return { perSec: (count / tookMs) * 1_000, p50Ms: at(0.5), p99Ms: at(0.99) }
}

async function opened(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.setNoDelay(true)
  await once(socket, 'connect')
  return socket
}

/** Every mark becomes a number that no other request of this process has. */
function requestOf({ path, headers, body }: LoadOrder): string {
  const text = body.replaceAll(MARK, `${process.pid}-${sent++}`)
  const lines = Object.entries({ Host: '127.0.0.1', ...headers, 'Content-Length': String(Buffer.byteLength(text)) })
  return `POST ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}`).join('\r\n')}\r\n\r\n${text}`
}

/** Reads one answer that names its length. */
function answered(socket: Socket, status: number): Promise<number> {
  return reading(socket, (held) => {
    const end = held.indexOf('\r\n\r\n')
    if (end === -1) return undefined
    const head = held.toString('latin1', 0, end)
    checkStatus(head, status)
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
    if (length === undefined) throw new Error(`an answer without Content-Length: ${head}`)
    return held.length >= end + 4 + Number(length) ? performance.now() : undefined
  })
}

/** Reads one event stream to its end, and tells when its first event was there. */
function firstEvent(socket: Socket, status: number): Promise<number> {
  let seenMs: number | undefined
  return reading(socket, (held) => {
    if (seenMs === undefined && held.includes(FIRST_EVENT)) {
      seenMs = performance.now()
      checkStatus(held.toString('latin1', 0, 32), status)
    }
    return held.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK) ? seenMs : undefined
  })
}

function checkStatus(head: string, status: number): void {
  if (!head.startsWith(`HTTP/1.1 ${status} `)) throw new Error(`answered ${head.slice(0, 200)}`)
}

function reading(socket: Socket, done: (held: Buffer) => number | undefined): Promise<number> {
  return new Promise((resolve, reject) => {
    let held: Buffer = Buffer.alloc(0)
    const off = () => socket.off('data', onData).off('close', onClose).off('error', onClose)
    const onClose = () => {
      off()
      reject(new Error(`the connection ended with ${held.length} bytes of an answer`))
    }
    const onData = (chunk: Buffer) => {
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
      try {
        const at = done(held)
        if (at === undefined) return
        off()
        resolve(at)
      } catch (error) {
        off()
        reject(error)
      }
    }
    socket.on('data', onData).on('close', onClose).on('error', onClose)
  })
}
