import type { Session } from '../sessions/session.ts'
import { A2aError } from './a2a-error.ts'
import type { JsonRpcId } from './json-rpc.ts'
import { endText, eventText } from './pss-texts.ts'
import type { TaskEvent } from './task-events.ts'
import type { TaskStream } from './task-stream.ts'

/** Events of one stream that the peer has not acknowledged, and their bytes; what comes meanwhile waits in the stream, within its bound. */
const UNACKED_MAX = 16
const UNACKED_BYTES_MAX = 131_072

/**
 * Sends the events of a stream, each a transaction of its own, then its end. Never more than a window of them is on its way.
 * @param onEvent - sees each event before it leaves
 * @param activated - extensions that the first text names
 * @throws A2aError, as the stream fails, for the last text; or what the session says when it takes nothing more
 */
export async function sendStream(
  session: Session,
  { channel, kind, id }: { channel: number; kind: number; id: JsonRpcId },
  stream: TaskStream,
  onEvent: (event: TaskEvent) => void,
  activated: readonly string[] = []
): Promise<void> {
  const unacked = new Set<Promise<void>>()
  let bytes = 0
  let lost: unknown
  const send = (payload: Uint8Array) => {
    bytes += payload.length
    const sent = session
      .send(channel, kind, payload)
      .catch((error) => {
        lost ??= error
        stream.close()
      })
      .finally(() => {
        bytes -= payload.length
        unacked.delete(sent)
      })
    unacked.add(sent)
  }
  let named = activated
  for await (const event of stream) {
    onEvent(event)
    send(eventText(id, event, named))
    named = []
    while (unacked.size >= UNACKED_MAX || bytes > UNACKED_BYTES_MAX) await untilOver(Promise.race(unacked), stream.over)
  }
  if (lost !== undefined) throw lost
  if (!stream.over.aborted) send(endText(id))
  // left by its reader: there is nobody to be told
}

function untilOver(work: Promise<void>, over: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const aborted = () => (over.reason instanceof A2aError ? reject(over.reason) : resolve())
    if (over.aborted) return aborted()
    over.addEventListener('abort', aborted, { once: true })
    void work.then(resolve).finally(() => over.removeEventListener('abort', aborted))
  })
}
