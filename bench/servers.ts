/** The servers that durable messages are compared with, each on loopback, on the second core, with a folder that goes when it stops. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { canPin } from './pair.ts'

export interface Log {
  name: string
  /** resolves once the server says that it has the message */
  append(message: Uint8Array): Promise<void>
  stop(): Promise<void>
}

const START_MS = 5_000

/** NATS JetStream with file storage. It acknowledges before it syncs (every two minutes by default). */
export async function natsLog(): Promise<Log | undefined> {
  if (!isInstalled('nats-server')) return undefined
  const { connect: connectNats } = await import('@nats-io/transport-node')
  const { jetstream, jetstreamManager, RetentionPolicy, StorageType } = await import('@nats-io/jetstream')
  const server = await start('nats-server', (port, dir) => ['-a', '127.0.0.1', '-p', String(port), '-js', '-sd', dir])
  const connection = await connectNats({ servers: `127.0.0.1:${server.port}` })
  const manager = await jetstreamManager(connection)
  await manager.streams.add({ name: 'bench', subjects: ['bench'], storage: StorageType.File, retention: RetentionPolicy.Limits })
  const stream = jetstream(connection)
  return {
    name: `NATS JetStream ${connection.info?.version ?? ''}, file storage (acks before it syncs)`,
    append: async (message) => void (await stream.publish('bench', message)),
    async stop() {
      await connection.close()
      await server.stop()
    }
  }
}

/** Redis Streams, every append synced before its answer. */
export async function redisLog(): Promise<Log | undefined> {
  if (!isInstalled('redis-server')) return undefined
  const server = await start('redis-server', (port, dir) => [
    '--bind',
    '127.0.0.1',
    '--port',
    String(port),
    '--dir',
    dir,
    '--save',
    '',
    '--appendonly',
    'yes',
    '--appendfsync',
    'always'
  ])
  const socket = connect(server.port, '127.0.0.1')
  await once(socket, 'connect')
  socket.setNoDelay(true)
  const answered = answersOf(socket)
  return {
    name: 'Redis Streams, appendfsync always',
    append(message) {
      const head = `*5\r\n$4\r\nXADD\r\n$5\r\nbench\r\n$1\r\n*\r\n$1\r\nm\r\n$${message.length}\r\n`
      socket.write(Buffer.concat([Buffer.from(head), message, Buffer.from('\r\n')]))
      return answered()
    },
    async stop() {
      socket.destroy()
      await server.stop()
    }
  }
}

/** XADD is answered with a bulk string, `$n\r\n…\r\n`, or with `-error\r\n`; answers come in the order asked. */
function answersOf(socket: Socket): () => Promise<void> {
  const waiting: { resolve(): void; reject(error: Error): void }[] = []
  let held = ''
  socket.on('data', (chunk) => {
    held += chunk.toString('latin1')
    for (;;) {
      const line = held.indexOf('\r\n')
      if (line === -1) return
      if (held.startsWith('-')) {
        waiting.shift()?.reject(new Error(held.slice(1, line)))
        held = held.slice(line + 2)
        continue
      }
      const end = held.indexOf('\r\n', line + 2)
      if (end === -1) return
      held = held.slice(end + 2)
      waiting.shift()?.resolve()
    }
  })
  return () => new Promise((resolve, reject) => waiting.push({ resolve, reject }))
}

function isInstalled(command: string): boolean {
  try {
    execFileSync(command, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    console.error(`left out: ${command} is not installed (on Debian: apt-get install ${command})`)
    return false
  }
}

async function start(command: string, args: (port: number, dir: string) => string[]): Promise<{ port: number; stop(): Promise<void> }> {
  const port = await freePort()
  const dir = mkdtempSync(join(tmpdir(), `rookery-bench-${command}-`))
  const whole = [command, ...args(port, dir)]
  const [file, ...rest] = canPin() ? ['taskset', '-c', '1', ...whole] : whole
  const child = spawn(file as string, rest, { stdio: 'ignore' })
  await listening(child, port)
  return {
    port,
    async stop() {
      const gone = once(child, 'exit')
      child.kill('SIGTERM')
      await gone
      rmSync(dir, { recursive: true, force: true })
    }
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

async function listening(child: ChildProcess, port: number): Promise<void> {
  for (const untilMs = performance.now() + START_MS; performance.now() < untilMs; ) {
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`)
    const socket = connect(port, '127.0.0.1')
    try {
      await once(socket, 'connect')
      return
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50))
    } finally {
      socket.destroy()
    }
  }
  child.kill('SIGKILL')
  throw new Error(`no server answers on port ${port} within ${START_MS} ms`)
}
