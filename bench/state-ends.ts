/** One end of state that two processes share: ours over a session, or a Yjs document over a raw libp2p stream. */
import type { Stream } from '@libp2p/interface'
import * as Y from 'yjs'
import type { Session } from '../src/sessions/session.ts'
import { write } from './endpoints.ts'

export const YJS = '/bench/yjs/1'

export type Plain = string | number | { [name: string]: Plain }

export interface StateEnd {
  set(key: string, value: Plain): void
  /** told of every key that the other end changed, with its value then */
  onChange(listener: (key: string, value: Plain) => void): void
}

/** Rejections are those of a session that ends with the benchmark. */
export function sessionEnd({ states }: Session): StateEnd {
  return {
    set(key, value) {
      states.own.set(key, value).catch(() => {})
    },
    onChange(listener) {
      void (async () => {
        for await (const event of states.peer.watch()) if (event.kind === 'set') listener(event.key, event.value as Plain)
      })()
    }
  }
}

/** Each update of the document is a frame of its own: u32 length ‖ bytes; no acknowledgment, no journal. */
export function yjsEnd(stream: Stream): StateEnd {
  const doc = new Y.Doc()
  const map = doc.getMap<Plain>('state')
  doc.on('update', (update: Uint8Array, origin: unknown) => {
    if (origin === stream) return
    const frame = new Uint8Array(4 + update.length)
    new DataView(frame.buffer).setUint32(0, update.length)
    frame.set(update, 4)
    void write(stream, frame)
  })
  let rest = new Uint8Array(0)
  stream.addEventListener('message', (event) => {
    const chunk = event.data.subarray()
    const all = new Uint8Array(rest.length + chunk.length)
    all.set(rest)
    all.set(chunk, rest.length)
    const view = new DataView(all.buffer)
    let at = 0
    while (all.length - at >= 4 && all.length - at - 4 >= view.getUint32(at)) {
      const length = view.getUint32(at)
      Y.applyUpdate(doc, all.subarray(at + 4, at + 4 + length), stream)
      at += 4 + length
    }
    rest = all.slice(at)
  })
  return {
    set: (key, value) => void map.set(key, value),
    onChange(listener) {
      map.observe((event, transaction) => {
        if (transaction.origin !== stream) return
        for (const key of event.keysChanged) listener(key, map.get(key) as Plain)
      })
    }
  }
}
