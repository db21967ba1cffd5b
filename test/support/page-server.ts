import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join, normalize } from 'node:path'

/** What a careful page sends: no script but its own files, no eval, connections to loopback alone. */
export const STRICT_CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  'connect-src ws://127.0.0.1:* https://127.0.0.1:*',
  "require-trusted-types-for 'script'",
  "base-uri 'none'",
  "form-action 'none'"
].join('; ')

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.map': 'application/json'
}
const EMPTY = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>page</title><script type="module" src="/held.js"></script></head><body></body></html>`
/** What a test finds in the page: the bundle, and what the security policy blocked. */
const HELD = `const violations = []
addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => violations.push(violatedDirective + ' ' + blockedURI))
const rookery = await import('/rookery.js')
globalThis.held = { rookery, violations }`

export interface PageServer {
  /** `http://127.0.0.1:port/`, an empty page */
  readonly url: string
  stop(): Promise<void>
}

/** Serves the folders' files by name, the first that has it, and an empty page at `/`; all under {@link STRICT_CSP}. */
export async function servePages(folders: readonly string[]): Promise<PageServer> {
  const server = createServer((request, response) => {
    const name = normalize(new URL(request.url ?? '/', 'http://page').pathname).replace(/^[/\\]+/, '')
    const body = name === '' ? EMPTY : name === 'held.js' ? HELD : fileOf(folders, name)
    if (body === undefined) {
      response.writeHead(404).end()
      return
    }
    response.writeHead(200, {
      'content-type': TYPES[extname(name)] ?? 'text/html',
      'content-security-policy': STRICT_CSP,
      'cache-control': 'no-store'
    })
    response.end(body)
  })
  await listen(server)
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    stop: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  }
}

function fileOf(folders: readonly string[], name: string): Buffer | undefined {
  for (const folder of folders) {
    try {
      return readFileSync(join(folder, name))
    } catch {}
  }
  return undefined
}

function listen(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => resolve())
  })
}
