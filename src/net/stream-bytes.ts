import type { Stream, StreamMessageEvent } from '@libp2p/interface'

/**
 * Collects what a peer sends on a stream, without the buffers that a longer talk needs.
 * @param isEnough - asked after each arrival; by default the end of the stream is waited for
 * @throws Error where more than `bytesMax` come, or the stream is reset; what `isEnough` throws; or the signal's reason
 */
export function collect(
  stream: Stream,
  { bytesMax, signal, isEnough = () => false }: { bytesMax: number; signal: AbortSignal; isEnough?: (bytes: Uint8Array) => boolean }
): Promise<Uint8Array> {
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    /** twice as large whenever it is full: what comes byte by byte is not copied each time */
    let room = new Uint8Array(0)
    let bytes = room
    const settle = (error?: unknown) => {
      stream.removeEventListener('message', onMessage)
      stream.removeEventListener('end', onEnd)
      stream.removeEventListener('close', onEnd)
      signal.removeEventListener('abort', onAbort)
      if (error === undefined) resolve(bytes)
      else reject(error)
    }
    const onMessage = ({ data }: StreamMessageEvent) => {
      const length = bytes.length + data.byteLength
      if (length > bytesMax) return settle(new RangeError(`a peer sent more than ${bytesMax} bytes`))
      if (length > room.length) {
        room = new Uint8Array(Math.min(bytesMax, Math.max(length, 2 * room.length)))
        room.set(bytes)
      }
      room.set(data instanceof Uint8Array ? data : data.subarray(), bytes.length)
      bytes = room.subarray(0, length)
      let enough = false
      try {
        enough = isEnough(bytes)
      } catch (error) {
        return settle(error)
      }
      if (enough) settle()
      else onEnd()
    }
    const onEnd = () => {
      // a reset says `end` too
      if (stream.status === 'reset' || stream.status === 'aborted') settle(new Error(`the stream was ${stream.status}`))
      // `end` comes once: while bytes that follow a negotiation wait to be given back to the stream it has come already, and is not said again after them
      else if (stream.remoteWriteStatus === 'closed' && stream.readBufferLength === 0) settle()
    }
    const onAbort = () => settle(signal.reason)
    stream.addEventListener('end', onEnd)
    stream.addEventListener('close', onEnd)
    signal.addEventListener('abort', onAbort, { once: true })
    stream.addEventListener('message', onMessage)
    onEnd()
  })
}
