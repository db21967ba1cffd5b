import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { TCP_FILE } from '../../src/api/control-endpoint.ts'
import { type ControlHandlers, serveControl } from '../../src/api/control-server.ts'
import { openOpsServer, sendText } from '../../src/ops/ops-server.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { type A2aNodeInit, rpc, startA2aNode, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'

const ANNA = testAgent(1)

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** One of the servers of this machine, with the request that it serves and how often it did something. */
interface Door {
  name: string
  port: number
  /** the lines of a good request, the body's apart */
  line: string
  headers: string[]
  body: string
  /** how often something was done */
  done(): Promise<number>
}

async function a2a(edge: A2aNodeInit['edge'] = {}): Promise<Door> {
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  const node = await startA2aNode({ dir: dir.path, agents: [ANNA], edge })
  cleanups.push(() => node.stop())
  return {
    name: 'A2A',
    port: node.edge.port,
    line: 'POST / HTTP/1.1',
    headers: ['Host: 127.0.0.1', 'Content-Type: application/json', 'A2A-Version: 1.0', `Authorization: Bearer ${ANNA.token}`],
    body: JSON.stringify(rpc('SendMessage', { message: textMessage('m-1') })),
    done: async () => (await node.todos.list({})).todos.length
  }
}

async function operator(): Promise<Door> {
  let done = 0
  const server = await openOpsServer(
    { logger: silentLogger },
    {
      host: '127.0.0.1',
      port: 0,
      routes: [
        {
          method: 'POST',
          path: '/act',
          handle(req, res) {
            req.resume()
            req.on('end', () => {
              done++
              sendText(res, 200, 'done\n')
            })
          }
        }
      ]
    }
  )
  cleanups.push(() => server.close())
  return {
    name: 'operator',
    port: server.port,
    line: 'POST /act HTTP/1.1',
    headers: ['Host: 127.0.0.1', 'Content-Type: application/json'],
    body: '{}',
    done: async () => done
  }
}

async function control(): Promise<Door> {
  let done = 0
  const dir = mkdtempSync(join(tmpdir(), 'rookery-attack-'))
  cleanups.push(() => rmSync(dir, { recursive: true, force: true }))
  const handlers = {
    status: async () => {
      done++
      return {}
    }
  } as unknown as ControlHandlers
  const server = await serveControl(
    { handlers, logger: silentLogger, random: systemRandom },
    { dataDir: dir, startedAtMs: 1, transport: 'tcp' }
  )
  cleanups.push(() => server.close())
  const { port, token } = JSON.parse(readFileSync(join(dir, TCP_FILE), 'utf8')) as { port: number; token: string }
  return {
    name: 'control',
    port,
    line: 'POST /v1/call HTTP/1.1',
    headers: ['Host: localhost', 'Content-Type: application/json', `Authorization: Bearer ${token}`],
    body: JSON.stringify({ method: 'status', params: {} }),
    done: async () => done
  }
}

const DOORS = [
  ['A2A', a2a],
  ['the operator’s server', operator],
  ['the control API', control]
] as const

async function dial(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  cleanups.push(() => socket.destroy())
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** Sends bytes as they are, and gives all that comes until the server ends the connection. */
async function answerTo(port: number, text: string): Promise<string> {
  const socket = await dial(port)
  let got = ''
  socket.on('data', (chunk) => {
    got += chunk
  })
  socket.write(text)
  await new Promise((resolve) => socket.once('close', resolve))
  return got
}

const lengthOf = (body: string) => `Content-Length: ${Buffer.byteLength(body)}`
const written = (line: string, headers: readonly string[], body: string) => `${line}\r\n${headers.join('\r\n')}\r\n\r\n${body}`
const statusesIn = (answer: string) => [...answer.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status))
const without = (headers: readonly string[], name: string) => headers.filter((one) => !one.toLowerCase().startsWith(`${name}:`))

describe.each(DOORS)('at %s', (_name, open) => {
  it('a request is served as it is meant', async () => {
    const { port, line, headers, body, done } = await open()
    const answer = await answerTo(port, written(line, [...headers, lengthOf(body), 'Connection: close'], body))
    expect(statusesIn(answer)).toEqual([200])
    expect(answer).not.toMatch(/^set-cookie:/im)
    expect(await done()).toBe(1)
  })

  it('a header that means one thing is refused when it is there twice, whichever of both is right', async () => {
    const { port, line, headers, body, done } = await open()
    const again = [
      'Host: evil.example',
      'host: 127.0.0.1',
      'Authorization: Bearer stolen',
      'Content-Type: text/plain',
      'Origin: http://localhost'
    ]
    for (const extra of again) {
      const given = extra.startsWith('Origin') ? ['Origin: http://localhost', ...headers] : headers
      const name = extra.split(':')[0]?.toLowerCase() as string
      if (!given.some((one) => one.toLowerCase().startsWith(`${name}:`))) continue
      for (const all of [
        [...given, extra],
        [extra, ...given]
      ]) {
        const answer = await answerTo(port, written(line, [...all, lengthOf(body), 'Connection: close'], body))
        expect([extra, statusesIn(answer).length]).toEqual([extra, 1])
        expect([400, 403], extra).toContain(statusesIn(answer)[0])
      }
    }
    expect(await done()).toBe(0)
  })

  it('no request hides in another: two lengths, a length beside chunks, folded or misspelt headers end the connection', async () => {
    const { port, line, headers, body, done } = await open()
    const hidden = written(line, [...headers, lengthOf(body)], body)
    const chunked = `0\r\n\r\n${hidden}`
    const attacks: [name: string, text: string][] = [
      ['CL.TE', written(line, [...headers, lengthOf(chunked), 'Transfer-Encoding: chunked'], chunked)],
      ['TE.CL', written(line, [...headers, 'Transfer-Encoding: chunked', 'Content-Length: 3'], chunked)],
      ['two lengths', written(line, [...headers, 'Content-Length: 0', lengthOf(hidden)], hidden)],
      ['two equal lengths', written(line, [...headers, lengthOf(body), lengthOf(body)], body)],
      ['two codings', written(line, [...headers, 'Transfer-Encoding: chunked', 'Transfer-Encoding: identity'], chunked)],
      ['a coding that is none', written(line, [...headers, 'Transfer-Encoding: xchunked'], chunked)],
      ['chunked not last', written(line, [...headers, 'Transfer-Encoding: chunked, identity'], chunked)],
      ['a space before the colon', written(line, [...headers, `Content-Length : ${body.length}`], body)],
      ['a length with a sign', written(line, [...headers, 'Content-Length: +2'], hidden)],
      ['a folded header', written(line, [...headers, 'X-Fold: a', ' Transfer-Encoding: chunked', lengthOf(hidden)], hidden)],
      ['a bare carriage return', written(line, [...headers, 'X-A: b\rContent-Length: 0', lengthOf(hidden)], hidden)],
      ['a zero byte', written(line, [...headers, 'X-A: b\0c', lengthOf(body)], body)],
      ['a chunk that lies', written(line, [...headers, 'Transfer-Encoding: chunked'], `2\r\n{}${hidden}`)],
      ['a head above 16 KiB', written(line, [...headers, `X-Long: ${'a'.repeat(17_000)}`, lengthOf(body)], body)]
    ]
    for (const [name, text] of attacks) {
      const statuses = statusesIn(await answerTo(port, text))
      expect([name, statuses.filter((one) => one < 400)]).toEqual([name, []])
      expect([name, statuses.length]).toEqual([name, Math.min(1, statuses.length)])
    }
    expect(await done()).toBe(0)
  })

  it('no name that DNS can rebind is answered, and none is no name', async () => {
    const { port, line, headers, body, done } = await open()
    const rest = without(headers, 'host')
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      '127.0.0.1.evil.example',
      'localhost.evil.example',
      '10.0.0.7',
      '0.0.0.0',
      ''
    ]) {
      const answer = await answerTo(port, written(line, [`Host: ${host}`, ...rest, lengthOf(body), 'Connection: close'], body))
      expect([host, statusesIn(answer)]).toEqual([host, [403]])
    }
    expect(statusesIn(await answerTo(port, written(line, [...rest, lengthOf(body), 'Connection: close'], body)))).toEqual([400])
    expect(await done()).toBe(0)
  })

  it('no page of another site is answered, not even one that has the token, and no preflight is granted', async () => {
    const { port, line, headers, body, done } = await open()
    for (const origin of ['https://evil.example', 'null', 'http://localhost.evil.example', 'file://', 'chrome-extension://abc', '']) {
      const answer = await answerTo(port, written(line, [...headers, `Origin: ${origin}`, lengthOf(body), 'Connection: close'], body))
      expect([origin, statusesIn(answer)]).toEqual([origin, [403]])
      expect(answer).not.toMatch(/^access-control-/im)
    }
    const preflight = ['Host: localhost', 'Origin: https://evil.example', 'Access-Control-Request-Method: POST', 'Connection: close']
    const answer = await answerTo(port, written(line.replace('POST', 'OPTIONS'), preflight, ''))
    expect(statusesIn(answer)[0]).toBeGreaterThanOrEqual(400)
    expect(answer).not.toMatch(/^access-control-/im)
    expect(await done()).toBe(0)
  })
})

describe('the origin of a page', () => {
  it('may be this machine or the public host of the node, and a form of another media type makes nothing', async () => {
    const { port, line, headers, body, done } = await a2a({ publicUrl: 'https://agents.example/a' })
    const ask = async (host: string, origin: string, type = 'application/json') => {
      const all = [`Host: ${host}`, `Origin: ${origin}`, `Content-Type: ${type}`, ...without(without(headers, 'host'), 'content-type')]
      const answer = await answerTo(port, written(line, [...all, lengthOf(body), 'Connection: close'], body))
      return answer.includes('CONTENT_TYPE_NOT_SUPPORTED') ? 'refused by its type' : statusesIn(answer)
    }
    expect(await ask('localhost', 'http://localhost:6274')).toEqual([200])
    expect(await ask('agents.example', 'https://agents.example')).toEqual([200])
    expect(await ask('agents.example', 'http://agents.example')).toEqual([403])
    expect(await ask('agents.example', 'https://evil.example')).toEqual([403])
    const made = await done()
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'application/json-patch'])
      expect([type, await ask('localhost', 'http://localhost', type)]).toEqual([type, 'refused by its type'])
    expect(await done()).toBe(made)
  })
})

describe('clients of the A2A edge that take their time', () => {
  /** Bytes one by one, for as long as the connection lasts. */
  function drip(socket: Socket, text: string): void {
    let at = 0
    const timer = setInterval(() => socket.write(text[at++ % text.length] as string), 20)
    socket.once('close', () => clearInterval(timer))
  }

  it('are answered 408 and closed: a head that drips, a body that drips, a connection that says nothing; others are served meanwhile', async () => {
    const door = await a2a({ headMs: 400, requestMs: 800, connectionsMax: 8 })
    const { port, line, headers, body } = door
    const silent = await dial(port)
    const head = await dial(port)
    head.write(`${line}\r\n${headers[0]}\r\nX-Slow: `)
    drip(head, 'a')
    const slow = await dial(port)
    slow.write(written(line, [...headers, 'Content-Length: 100000'], ''))
    drip(slow, ' ')
    const said = Promise.all(
      [silent, head, slow].map(async (socket) => {
        let got = ''
        socket.on('data', (chunk) => {
          got += chunk
        })
        await new Promise((resolve) => socket.once('close', resolve))
        return statusesIn(got)
      })
    )
    // A machine that stands still for longer than the bound makes an honest request late too: it comes again.
    const honest = async () => statusesIn(await answerTo(port, written(line, [...headers, lengthOf(body), 'Connection: close'], body)))
    for (let tries = 1; (await honest())[0] !== 200; tries++) expect(tries).toBeLessThan(10)
    const [, ofHead, ofBody] = await said
    expect([ofHead, ofBody]).toEqual([[408], [408]])
    expect(await door.done()).toBe(1)
  })
})
