import type { ServerResponse } from 'node:http'
import type { Clock } from '../platform/clock.ts'
import { A2aError, toA2aError } from './a2a-error.ts'

/** One event as a binding carries it. */
export interface SseEvent {
  id?: string | undefined
  /** one JSON text */
  data: string
}

export interface SseOptions {
  clock: Clock
  /** {@link TaskStreams.onHeartbeat} */
  onHeartbeat: (beat: () => void) => () => void
  /** ends the waiting for a reader that takes nothing: its stream is over */
  over: AbortSignal
  /** the last event of a stream that fails, as JSON in the binding's form */
  failure: (error: A2aError) => string
  headers?: Record<string, string>
}

/** Heartbeats that a reader may leave in the buffer before its stream is ended. */
const BEATS_BLOCKED_MAX = 2
/** How long a reader that was told of an end may take to read it. */
const END_GRACE_MS = 2_000
/** A comment, which every reader of event streams skips (F016, F017). */
const KEEP_ALIVE = ': ka\n\n'

/**
 * Writes a stream as server-sent events until it ends, fails or its reader leaves; never rejects. At most one event waits in the socket beside what the
 * stream itself holds.
 */
export async function sendEvents(res: ServerResponse, events: AsyncIterable<SseEvent>, options: SseOptions): Promise<void> {
  const { clock, onHeartbeat, over, failure, headers = {} } = options
  res.on('error', () => {}) // a reader that left; its leaving is told by 'close'
  res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache', 'X-Accel-Buffering': 'no', ...headers })
  const stalled = new AbortController()
  let blockedBeats = 0
  const stopBeats = onHeartbeat(() => {
    if (isGone(res)) return
    if (!res.writableNeedDrain) {
      blockedBeats = 0
      res.write(KEEP_ALIVE)
    } else if (++blockedBeats >= BEATS_BLOCKED_MAX) stalled.abort(stall())
  })
  try {
    for await (const { id, data } of events) {
      if (isGone(res)) return
      if (!res.write(`${id === undefined ? '' : `id: ${id}\n`}data: ${data}\n\n`)) await drained(res, [over, stalled.signal])
    }
  } catch (error) {
    if (!isGone(res) && !isAbort(error)) res.write(`event: error\ndata: ${failure(toA2aError(error))}\n\n`)
  } finally {
    stopBeats()
    finish(res, clock)
  }
}

/** Ends the answer; what its reader does not take soon is dropped with the connection. */
function finish(res: ServerResponse, clock: Clock): void {
  if (isGone(res)) return
  res.end()
  if (res.writableFinished) return
  const cancel = clock.after(END_GRACE_MS, () => res.destroy())
  res.once('close', cancel)
}

/** Resolves when the socket took what was written, or is gone; rejects when a signal fires. */
function drained(res: ServerResponse, signals: readonly AbortSignal[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const over = () => {
      for (const event of ['drain', 'close']) res.off(event, done)
      for (const signal of signals) signal.removeEventListener('abort', aborted)
    }
    const done = () => {
      over()
      resolve()
    }
    const aborted = () => {
      over()
      reject(signals.find((signal) => signal.aborted)?.reason)
    }
    for (const event of ['drain', 'close']) res.once(event, done)
    for (const signal of signals) signal.addEventListener('abort', aborted, { once: true })
    if (signals.some((signal) => signal.aborted)) aborted()
    else if (isGone(res)) done()
  })
}

function isGone(res: ServerResponse): boolean {
  return res.destroyed || res.writableEnded
}

function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}

function stall(): A2aError {
  return new A2aError('RATE_LIMITED', 'the reader of this stream took nothing for a while; the task goes on: subscribe again', {
    metadata: { cause: 'STREAM_TOO_SLOW' }
  })
}
