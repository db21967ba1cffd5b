import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { RookeryError } from '../errors.ts'

/** Carries MCP between stdin and stdout and the node's MCP door. Runs until stdin ends, the node goes or Ctrl-C. */
export async function bridge(url: URL, token: string, signal: AbortSignal): Promise<void> {
  const near = new StdioServerTransport()
  const far = new StreamableHTTPClientTransport(url, { requestInit: { headers: { Authorization: `Bearer ${token}` } } })
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const gone = (cause: unknown) =>
    reject(
      new RookeryError('NODE_UNREACHABLE', 'the node does not answer any more', {
        kind: 'unavailable',
        remedy: 'start it with `rookery start`, then start this again',
        cause
      })
    )
  near.onmessage = (message) => {
    far.send(message).catch(gone)
  }
  far.onmessage = (message) => {
    if ('result' in message && typeof message.result.protocolVersion === 'string') far.setProtocolVersion(message.result.protocolVersion)
    near.send(message).catch(gone)
  }
  process.stdin.once('end', resolve)
  process.stdin.once('close', resolve)
  signal.addEventListener('abort', () => resolve(), { once: true })
  await far.start()
  await near.start()
  try {
    await promise
  } finally {
    // Ends the session on the node, where it still answers.
    await far.terminateSession().catch(() => undefined)
    await far.close()
    await near.close()
  }
}
