import type { IncomingMessage } from 'node:http'
import { hostName, isForeignOrigin, isLoopbackHost, repeatedHeader } from '../platform/http-requests.ts'
import { A2aError } from './a2a-error.ts'
import type { Exchange } from './http-exchange.ts'

/**
 * What a browser or a gateway could be led to send is refused before anything is looked for: names that a rebound DNS entry would bring (only loopback names and
 * the node's own public host pass), pages of other sites, and headers that are there twice.
 * @throws A2aError `PERMISSION_DENIED`
 */
export function checkSender(req: IncomingMessage, publicUrl: string | undefined): void {
  const { host, origin } = req.headers
  const repeated = repeatedHeader(req)
  if (repeated !== undefined)
    throw new A2aError('PERMISSION_DENIED', `the header ${repeated} is there twice`, { metadata: { field: repeated } })
  const own = publicUrl === undefined ? undefined : new URL(publicUrl)
  if (!isLoopbackHost(host) && hostName(host) !== own?.hostname) {
    throw new A2aError('PERMISSION_DENIED', 'this node answers to loopback names and its public host only', { metadata: { field: 'Host' } })
  }
  if (isForeignOrigin(origin, own === undefined ? [] : [own.origin])) {
    throw new A2aError('PERMISSION_DENIED', 'pages of other sites are not answered; a gateway that serves them takes Origin away', {
      metadata: { field: 'Origin' }
    })
  }
}

/** @throws A2aError `CONTENT_TYPE_NOT_SUPPORTED` */
export function checkContentType(exchange: Exchange, types: readonly [string, ...string[]]): void {
  const type = (exchange.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase()
  if (type !== undefined && types.includes(type)) return
  throw new A2aError('CONTENT_TYPE_NOT_SUPPORTED', `send Content-Type: ${types.join(' or ')}`, { metadata: { field: 'Content-Type' } })
}

/**
 * Reads the whole body; what is compressed is refused rather than blown up.
 * @throws A2aError `PAYLOAD_TOO_LARGE`, `CONTENT_TYPE_NOT_SUPPORTED`; `INVALID_REQUEST` for one that breaks off
 */
export async function readBody(exchange: Exchange, bytesMax: number): Promise<Uint8Array> {
  const { req } = exchange
  const encoding = exchange.header('content-encoding')
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'identity') {
    throw new A2aError('CONTENT_TYPE_NOT_SUPPORTED', 'send the body uncompressed', { metadata: { field: 'Content-Encoding' } })
  }
  if (Number(exchange.header('content-length') ?? 0) > bytesMax) throw tooLarge(bytesMax)
  return await new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    const done = (settle: () => void) => {
      req.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken)
      settle()
    }
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= bytesMax) chunks.push(chunk)
      else {
        req.pause()
        done(() => reject(tooLarge(bytesMax)))
      }
    }
    const onEnd = () => done(() => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)))
    const onBroken = (cause?: unknown) =>
      done(() => reject(new A2aError('INVALID_REQUEST', 'the request broke off before its body had come', { cause })))
    req.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken)
  })
}

function tooLarge(bytesMax: number): A2aError {
  return new A2aError('PAYLOAD_TOO_LARGE', `the body is above ${bytesMax} bytes`, { metadata: { bytesMax: String(bytesMax) } })
}
