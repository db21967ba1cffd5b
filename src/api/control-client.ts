import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { fromErrorJson, RookeryError, type RookeryErrorJson } from '../errors.ts'
import { type ControlEndpoint, findEndpoint } from './control-endpoint.ts'
import { CONTROL_BOUNDS, type ControlMethod, type ControlParams, type ControlResults } from './methods.ts'

export interface CallOptions {
  /** ends the call and the work on the node */
  signal?: AbortSignal
  onProgress?: (text: string) => void
  /** what a method tells on the way, as values; which ones stands beside the method */
  onEvent?: (event: unknown) => void
  endpoint?: ControlEndpoint
}

/**
 * Calls the node that runs on a data directory.
 * @throws RookeryError what the node answered; `NODE_NOT_RUNNING`, `CONTROL_DENIED`, `CONTROL_LOST` (outcome unknown), `REQUEST_TOO_LARGE`;
 *   or the signal's reason
 */
export async function callControl<M extends ControlMethod>(
  dataDir: string,
  method: M,
  params: ControlParams<M>,
  options: CallOptions = {}
): Promise<ControlResults[M]> {
  options.signal?.throwIfAborted()
  const body = JSON.stringify({ method, params })
  if (Buffer.byteLength(body) > CONTROL_BOUNDS.requestBytesMax) {
    throw new RookeryError(
      'REQUEST_TOO_LARGE',
      `a control request has at most ${CONTROL_BOUNDS.requestBytesMax} bytes, this one ${Buffer.byteLength(body)}`,
      {
        kind: 'usage',
        field: 'requestBytesMax',
        value: Buffer.byteLength(body),
        remedy: 'send smaller or fewer files'
      }
    )
  }
  const lines = exchange(dataDir, { verb: 'POST', path: '/v1/call', body }, options)
  for await (const line of lines) {
    if (typeof line.progress === 'string') options.onProgress?.(line.progress)
    else if (line.event !== undefined) options.onEvent?.(line.event)
    else if (line.error !== undefined) throw fromErrorJson(line.error as RookeryErrorJson)
    else if ('result' in line) return line.result as ControlResults[M]
  }
  throw lost(method)
}

/** Who answers at the control channel of a data directory; undefined when nobody does. */
export async function helloControl(dataDir: string, options: CallOptions = {}): Promise<{ pid: number; startedAtMs: number } | undefined> {
  try {
    for await (const line of exchange(dataDir, { verb: 'GET', path: '/v1/hello' }, options)) {
      const hello = line.result as { rookery?: unknown; pid?: unknown; startedAtMs?: unknown } | undefined
      if (hello?.rookery === 1 && typeof hello.pid === 'number' && typeof hello.startedAtMs === 'number') {
        return { pid: hello.pid, startedAtMs: hello.startedAtMs }
      }
    }
    return undefined
  } catch (error) {
    if (error instanceof RookeryError) return undefined
    throw error
  }
}

type Line = { progress?: unknown; event?: unknown; result?: unknown; error?: unknown }

async function* exchange(dataDir: string, call: { verb: string; path: string; body?: string }, options: CallOptions): AsyncGenerator<Line> {
  let endpoint: ControlEndpoint | undefined
  try {
    endpoint = options.endpoint ?? findEndpoint(dataDir)
  } catch (cause) {
    if (cause instanceof RookeryError && cause.code === 'DATA_DIR_MISSING') throw notRunning(dataDir, cause)
    throw cause
  }
  if (endpoint === undefined) throw notRunning(dataDir)
  const response = await send(dataDir, endpoint, call, options.signal)
  const decoder = new TextDecoder()
  let rest = ''
  let length = 0
  try {
    for await (const chunk of response) {
      length += (chunk as Uint8Array).length
      if (length > CONTROL_BOUNDS.responseBytesMax) throw lost(call.path)
      rest += decoder.decode(chunk as Uint8Array, { stream: true })
      for (let at = rest.indexOf('\n'); at >= 0; at = rest.indexOf('\n')) {
        const text = rest.slice(0, at)
        rest = rest.slice(at + 1)
        const line = JSON.parse(text) as Line
        if (line.event !== undefined) length = 0 // the bound is for one answer; what goes on telling has no end
        yield line
      }
    }
  } catch (cause) {
    options.signal?.throwIfAborted()
    if (cause instanceof RookeryError) throw cause
    throw lost(call.path, cause)
  } finally {
    response.destroy()
  }
}

function send(
  dataDir: string,
  endpoint: ControlEndpoint,
  call: { verb: string; path: string; body?: string },
  signal: AbortSignal | undefined
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request: ClientRequest = httpRequest({
      ...(endpoint.kind === 'socket' ? { socketPath: endpoint.path } : { host: endpoint.host, port: endpoint.port }),
      method: call.verb,
      path: call.path,
      headers: {
        host: 'localhost',
        ...(call.body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(call.body) }),
        ...(endpoint.kind === 'tcp' ? { authorization: `Bearer ${endpoint.token}` } : {})
      },
      agent: false,
      ...(signal === undefined ? {} : { signal })
    })
    let answered = false
    request.on('response', (response) => {
      answered = true
      resolve(response)
    })
    request.on('error', (error: NodeJS.ErrnoException) => {
      if (answered) return
      if (signal?.aborted === true) reject(signal.reason)
      else if (error.code === 'ENOENT' || error.code === 'ECONNREFUSED' || error.code === 'ENOTSOCK') reject(notRunning(dataDir, error))
      else if (error.code === 'EACCES' || error.code === 'EPERM') {
        reject(
          new RookeryError('CONTROL_DENIED', `this user may not talk to the node of ${dataDir}`, {
            kind: 'refused',
            field: 'dataDir',
            value: dataDir,
            remedy: 'run the command as the user that runs the node',
            cause: error
          })
        )
      } else reject(lost(call.path, error))
    })
    request.end(call.body)
  })
}

function notRunning(dataDir: string, cause?: unknown): RookeryError {
  return new RookeryError('NODE_NOT_RUNNING', `no node runs on ${dataDir}`, {
    kind: 'unavailable',
    field: 'dataDir',
    value: dataDir,
    remedy: `start it with \`rookery start --data ${dataDir}\`, or name the data directory of the running one with --data`,
    cause
  })
}

function lost(what: string, cause?: unknown): RookeryError {
  return new RookeryError('CONTROL_LOST', `the node went away before it answered ${what}; whether it was done is unknown`, {
    kind: 'unavailable',
    remedy: 'look at `rookery status` and the log of the node',
    cause
  })
}
