import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { type A2aNode, type A2aNodeInit, post, rpc, startA2aNode, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'

const ANNA = testAgent(1)
const BODY = JSON.stringify(rpc('SendMessage', { message: textMessage('m-1') }))
const HEAD = [
  'Host: 127.0.0.1',
  'Content-Type: application/json',
  'A2A-Version: 1.0',
  `Authorization: Bearer ${ANNA.token}`,
  'Connection: close'
]

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function node(edge: A2aNodeInit['edge'] = {}): Promise<A2aNode> {
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  const started = await startA2aNode({ dir: dir.path, agents: [ANNA], edge })
  cleanups.push(() => started.stop())
  return started
}

async function dial({ edge }: A2aNode): Promise<Socket> {
  const socket = connect(edge.port, '127.0.0.1')
  cleanups.push(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

/** Sends text as it is, and gives all that comes until the connection ends. */
async function answerTo(running: A2aNode, text: string): Promise<string> {
  const socket = await dial(running)
  let got = ''
  socket.on('data', (chunk) => {
    got += chunk
  })
  socket.on('error', () => undefined)
  socket.write(text)
  await once(socket, 'close')
  return got
}

const request = (line: string, headers: string[], body = '') => `${line}\r\n${headers.join('\r\n')}\r\n\r\n${body}`

describe('the HTTP edge under requests that no client library writes', () => {
  it('takes the whole URL in the request line, as a proxy sends it', async () => {
    const running = await node()
    const line = `POST http://127.0.0.1:${running.edge.port}/agents/${encodeURIComponent(ANNA.did)}/?x=1 HTTP/1.1`
    const got = await answerTo(running, request(line, [...HEAD, `Content-Length: ${BODY.length}`], BODY))
    expect(got).toMatch(/^HTTP\/1\.1 200 /)
    expect(got).toContain('TASK_STATE_COMPLETED')
  })

  it('reads a body in chunks, and refuses one that passes the bound on the way with 413 in JSON', async () => {
    const running = await node({ bodyBytesMax: 2_048 })
    const chunked = (...parts: string[]) => [...parts, ''].map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join('')
    const headers = [...HEAD, 'Transfer-Encoding: chunked']
    const fits = await answerTo(running, request('POST / HTTP/1.1', headers, chunked(BODY.slice(0, 20), BODY.slice(20))))
    expect(fits).toContain('TASK_STATE_COMPLETED')
    const large = await answerTo(running, request('POST / HTTP/1.1', headers, chunked(' '.repeat(2_000), ' '.repeat(2_000))))
    expect(large).toMatch(/^HTTP\/1\.1 413 /)
    expect(large).toContain('PAYLOAD_TOO_LARGE')
  })

  it('answers a request whose body it refused to read, reads the rest of it away, and serves the next one on the same connection', async () => {
    const running = await node({ bodyBytesMax: 2_048 })
    const body = ' '.repeat(1_048_576)
    const open = HEAD.filter((line) => line !== 'Connection: close')
    for (const [status, headers] of [
      [413, open],
      [401, open.filter((line) => !line.startsWith('Authorization'))],
      [200, open.map((line) => line.replace('application/json', 'text/plain'))]
    ] as const) {
      const socket = await dial(running)
      let got = ''
      socket.on('data', (chunk) => {
        got += chunk
      })
      const ended = once(socket, 'close')
      socket.write(request('POST / HTTP/1.1', [...headers, `Content-Length: ${body.length}`]))
      while (!got.includes('\r\n\r\n')) await once(socket, 'data')
      expect(got).toContain(`HTTP/1.1 ${status} `)
      socket.write(body + request('POST / HTTP/1.1', [...HEAD, `Content-Length: ${BODY.length}`], BODY))
      await ended
      expect(got).toContain('TASK_STATE_COMPLETED')
    }
  })

  it('closes a refused request whose rest does not come', async () => {
    const running = await node({ bodyBytesMax: 2_048 })
    const socket = await dial(running)
    const headers = HEAD.filter((line) => line !== 'Connection: close')
    socket.write(request('POST / HTTP/1.1', [...headers, 'Content-Length: 10000'], 'some'))
    expect(String((await once(socket, 'data'))[0])).toContain('HTTP/1.1 413 ')
    const [hadError] = await once(socket, 'close')
    expect(hadError).toBe(false)
  })

  it('goes on after a body that broke off, and makes no task of it', async () => {
    const running = await node()
    const socket = await dial(running)
    socket.on('error', () => undefined)
    socket.write(request('POST / HTTP/1.1', [...HEAD, `Content-Length: ${BODY.length}`], BODY.slice(0, 30)))
    socket.destroy()
    await once(socket, 'close')
    const listed = await post(`${running.edge.url}/`, rpc('ListTasks', {}), { agent: ANNA })
    expect(listed.body.result.totalSize).toBe(0)
  })

  it('answers a path that is no UTF-8, and one that nothing serves, in JSON', async () => {
    const running = await node()
    const garbled = await answerTo(running, request('POST /agents/%ff HTTP/1.1', [...HEAD, 'Content-Length: 0']))
    expect(JSON.parse(garbled.slice(garbled.indexOf('\r\n\r\n'))).error.data[0].reason).toBe('INVALID_REQUEST')
    const nowhere = await answerTo(running, request('GET /agents HTTP/1.1', HEAD))
    expect(nowhere).toMatch(/^HTTP\/1\.1 404 /)
    expect(JSON.parse(nowhere.slice(nowhere.indexOf('\r\n\r\n'))).error).toBe('not_found')
  })

  it('answers HEAD of a card without its body', async () => {
    const got = await answerTo(await node(), request('HEAD /.well-known/agent-card.json HTTP/1.1', HEAD))
    expect(got).toMatch(/^HTTP\/1\.1 200 /)
    expect(got).toMatch(/\r\nETag: "/i)
    expect(got.endsWith('\r\n\r\n')).toBe(true)
  })

  it('closes the connection above its bound unanswered, and serves again when one has ended', async () => {
    const running = await node({ connectionsMax: 2 })
    const held = [await dial(running), await dial(running)]
    expect(await answerTo(running, request('GET /.well-known/agent-card.json HTTP/1.1', HEAD))).toBe('')
    held[0]?.destroy()
    await expect
      .poll(async () => await answerTo(running, request('GET /.well-known/agent-card.json HTTP/1.1', HEAD)))
      .toMatch(/^HTTP\/1\.1 200 /)
  })
})
