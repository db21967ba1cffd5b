/**
 * A page that is an agent: it joins a node over a WebSocket, finds an agent by topic and sends it a task.
 *
 *   node examples/browser/serve.ts
 *
 * and open the address that it prints. In a page of your own: `import { … } from 'rookery/browser'`.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { buildBrowser } from '../../packaging/browser/build.ts'
import { createNode, initDataDir, nodeCrypto, systemRandom } from '../../src/index.ts'

const TOPIC = 'org.example/browser.echo@1'
const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json'
}
/** No script but these files, no eval; connections to this machine alone. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws://127.0.0.1:*; base-uri 'none'; form-action 'none'"

const folder = mkdtempSync(join(tmpdir(), 'rookery-example-'))
const dataDir = join(folder, 'node')
await buildBrowser(join(folder, 'bundle'))
initDataDir(dataDir, { crypto: nodeCrypto, random: systemRandom })
const node = await createNode({ dataDir, listen: ['/ip4/127.0.0.1/tcp/0/ws'], http: { enabled: false }, grants: { peers: 'anyone' } })
const echo = await node.addAgent({ name: 'echo', handler: 'echo' })
await node.spaces.announce({ name: TOPIC, curator: echo })
await node.spaces.join({ name: TOPIC, agent: echo })
const network = { bootstrap: node.host.addresses().map((address) => `${address}/p2p/${node.peer}`), topic: TOPIC }

function fileOf(name: string): Buffer | string | undefined {
  if (name === 'network.json') return JSON.stringify(network)
  if (!/^[a-zA-Z0-9-]+\.(html|js|css)$/.test(name)) return undefined
  for (const place of [import.meta.dirname, join(folder, 'bundle')]) {
    try {
      return readFileSync(join(place, name))
    } catch {}
  }
  return undefined
}

const server = createServer((request, response) => {
  const name = new URL(request.url ?? '/', 'http://page').pathname.slice(1) || 'index.html'
  const body = fileOf(name)
  if (body === undefined) return response.writeHead(404).end()
  response.writeHead(200, { 'content-type': TYPES[extname(name)], 'content-security-policy': POLICY }).end(body)
})
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`open http://127.0.0.1:${(server.address() as AddressInfo).port}/ (Ctrl-C ends it)\n`)
)

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, async () => {
    server.closeAllConnections()
    server.close()
    await node.stop()
    rmSync(folder, { recursive: true, force: true })
  })
}
