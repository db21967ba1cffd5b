import { spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { callControl, helloControl } from '../../src/api/control-client.ts'
import { createNode } from '../../src/node.ts'
import { type DaemonProcess, LOOPBACK, nodeDir, ready, startDaemon } from '../support/node-dir.ts'

let dir: ReturnType<typeof nodeDir>
const daemons: DaemonProcess[] = []
const start = (path = dir.path, config = LOOPBACK) => {
  const daemon = startDaemon(path, config)
  daemons.push(daemon)
  return daemon
}
beforeEach(() => {
  dir = nodeDir()
})
afterEach(async () => {
  for (const daemon of daemons.splice(0)) {
    daemon.kill('SIGKILL')
    await daemon.exited
  }
  dir.remove()
})

describe('a node in a process of its own', () => {
  it('answers by the control API, stops cleanly on SIGTERM within 5 s and leaves no socket and no node.json [F095]', async () => {
    const daemon = start()
    const status = await ready(daemon)
    expect(status.node).toMatchObject({ peer: dir.peer, pid: daemon.pid, dataDir: dir.path })
    expect(JSON.parse(readFileSync(join(dir.path, 'node.json'), 'utf8'))).toMatchObject({ pid: daemon.pid })
    expect((await callControl(dir.path, 'status', {})).node.pid).toBe(daemon.pid)
    const beganMs = performance.now()
    daemon.kill('SIGTERM')
    expect(await daemon.exited).toEqual({ code: 0, signal: null })
    expect(performance.now() - beganMs).toBeLessThan(5_000)
    expect(existsSync(join(dir.path, 'node.json'))).toBe(false)
    expect(existsSync(join(dir.path, 'control.sock'))).toBe(false)
  })

  it('ends by `stop`, which is answered first', async () => {
    const daemon = start()
    await ready(daemon)
    expect(await callControl(dir.path, 'stop', {})).toEqual({ stopping: true })
    expect(await daemon.exited).toEqual({ code: 0, signal: null })
  })

  it('is one on its data directory: a second start names the first by pid and start, and the library gets the same error [F061]', async () => {
    const first = start()
    const status = await ready(first)
    const line = await start().first
    expect(line).toMatchObject({
      error: { code: 'DATA_DIR_IN_USE', kind: 'conflict', data: { pid: first.pid, startedAtMs: status.node.startedAtMs } }
    })
    await expect(createNode({ ...LOOPBACK, dataDir: dir.path })).rejects.toMatchObject({
      code: 'DATA_DIR_IN_USE',
      data: { pid: first.pid }
    })
    expect((await helloControl(dir.path))?.pid).toBe(first.pid)
  })

  it('starts again after kill -9 with the same identity, agents and settings [D-21] [F100]', async () => {
    const first = start()
    await ready(first)
    const agent = await callControl(dir.path, 'agent.add', { name: 'weather', handler: 'echo' })
    await callControl(dir.path, 'sleep', { agent: 'weather' })
    first.kill('SIGKILL')
    await first.exited
    expect(existsSync(join(dir.path, 'node.json'))).toBe(true)
    const again = await ready(start())
    expect(again.node.peer).toBe(dir.peer)
    expect(again.agents).toMatchObject([{ name: 'weather', did: agent.did, handler: 'echo', mode: 'sleep' }])
  })

  it('starts beside a stale node.json with the pid of a stranger, and a stop leaves the stranger alone [F091] [F092]', async () => {
    const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'], { stdio: 'ignore' })
    try {
      writeFileSync(
        join(dir.path, 'node.json'),
        JSON.stringify({ pid: stranger.pid, startedAtMs: 1, socket: join(dir.path, 'control.sock') })
      )
      await expect(callControl(dir.path, 'stop', {})).rejects.toMatchObject({ code: 'NODE_NOT_RUNNING' })
      const daemon = start()
      expect((await ready(daemon)).node.pid).toBe(daemon.pid)
      const other = nodeDir()
      try {
        const second = start(other.path)
        await ready(second)
        await callControl(dir.path, 'stop', {})
        await daemon.exited
        expect((await callControl(other.path, 'status', {})).node.pid).toBe(second.pid)
        second.kill('SIGTERM')
        await second.exited
      } finally {
        other.remove()
      }
      expect(stranger.exitCode).toBeNull()
    } finally {
      stranger.kill('SIGKILL')
    }
  })

  it('ends at once with 130 on a second signal, while the first waits for a peer that is frozen', async () => {
    const frozenDir = nodeDir()
    try {
      const frozen = start(frozenDir.path)
      const { addresses, node } = await ready(frozen)
      const daemon = start(dir.path, { ...LOOPBACK, bootstrap: addresses.map((address) => `${address}/p2p/${node.peer}`) })
      await ready(daemon)
      while ((await callControl(dir.path, 'status', {})).routingTableSize === 0) await new Promise((resolve) => setTimeout(resolve, 50))
      await callControl(dir.path, 'agent.add', { name: 'a' })
      await callControl(dir.path, 'space.announce', { name: 'org.agentnet/energy@1' })
      frozen.kill('SIGSTOP')
      daemon.kill('SIGINT')
      while ((await helloControl(dir.path)) !== undefined) await new Promise((resolve) => setTimeout(resolve, 20))
      const beganMs = performance.now()
      daemon.kill('SIGTERM')
      expect(await daemon.exited).toEqual({ code: 130, signal: null })
      expect(performance.now() - beganMs).toBeLessThan(1_000)
      await (await createNode({ ...LOOPBACK, dataDir: dir.path })).stop()
    } finally {
      frozenDir.remove()
    }
  })

  it('that is stopped while it starts ends within 5 s, with its store closed [F095]', async () => {
    const daemon = start()
    const began = performance.now()
    await new Promise((resolve) => setTimeout(resolve, 300))
    daemon.kill('SIGTERM')
    await daemon.exited
    expect(performance.now() - began).toBeLessThan(6_000)
    await using node = await createNode({ ...LOOPBACK, dataDir: dir.path })
    expect(node.peer).toBe(dir.peer)
  })
})

describe('ports [F094]', () => {
  const occupy = async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return { port: (server.address() as { port: number }).port, close: () => new Promise((resolve) => server.close(resolve)) }
  }

  it('an HTTP port set by hand that stays taken is tried for a few seconds, then refused by name', async () => {
    const taken = await occupy()
    const beganMs = performance.now()
    await expect(createNode({ ...LOOPBACK, http: { port: taken.port }, dataDir: dir.path })).rejects.toMatchObject({
      code: 'PORT_IN_USE',
      value: taken.port
    })
    expect(performance.now() - beganMs).toBeGreaterThan(2_000)
    await taken.close()
    await (await createNode({ ...LOOPBACK, http: { port: taken.port }, dataDir: dir.path })).stop()
  })

  it('an HTTP port set by hand that comes free meanwhile is taken', async () => {
    const taken = await occupy()
    const starting = createNode({ ...LOOPBACK, http: { port: taken.port }, dataDir: dir.path })
    await new Promise((resolve) => setTimeout(resolve, 700))
    await taken.close()
    await using node = await starting
    expect(node.httpUrl).toBe(`http://127.0.0.1:${taken.port}`)
  })

  it('a remembered automatic HTTP port that is taken moves on, and is the same again where it is free', async () => {
    const first = await createNode({ listen: LOOPBACK.listen, dataDir: dir.path })
    const url = new URL(first.httpUrl as string)
    await first.stop()
    const second = await createNode({ listen: LOOPBACK.listen, dataDir: dir.path })
    expect(second.httpUrl).toBe(url.origin)
    await second.stop()
    const thief = createServer()
    await new Promise<void>((resolve) => thief.listen(Number(url.port), '127.0.0.1', resolve))
    const third = await createNode({ listen: LOOPBACK.listen, dataDir: dir.path })
    expect(third.httpUrl).not.toBe(url.origin)
    await third.stop()
    await new Promise((resolve) => thief.close(resolve))
  })

  it('a QUIC port set by hand that is taken is refused by name', async () => {
    await using first = await createNode({ ...LOOPBACK, dataDir: dir.path })
    const [address = ''] = first.host.addresses()
    const other = nodeDir()
    try {
      await expect(createNode({ ...LOOPBACK, listen: [address], dataDir: other.path })).rejects.toMatchObject({
        code: 'PORT_IN_USE',
        field: 'listen[0]'
      })
    } finally {
      other.remove()
    }
  })
})
