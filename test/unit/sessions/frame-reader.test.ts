import { describe, expect, it } from 'vitest'
import { NO_COOKIE } from '../../../protocol/session/cookie.ts'
import { encodeHeader, FRAME } from '../../../protocol/session/header.ts'
import { FrameReader } from '../../../src/sessions/frame-reader.ts'
import { MemoryHost, MemoryNet } from './memory-net.ts'

function frameOf(bodyBytes: number, fill: number): Uint8Array {
  const frame = new Uint8Array(24 + bodyBytes).fill(fill)
  frame.set(encodeHeader({ type: FRAME.DATA_STREAM, flags: 0, bodyBytes, iCookie: NO_COOKIE, rCookie: NO_COOKIE }))
  return frame
}

describe('a reader of frames', () => {
  it('reads small and large frames whole, and holds no large buffer after the largest', async () => {
    const net = new MemoryNet()
    const [a, b] = [new MemoryHost(net, 1), new MemoryHost(net, 2)]
    const frames = [100, 70_000, 72, 1_052_672, 66_000, 5_000].map((bodyBytes, i) => frameOf(bodyBytes, i + 1))
    const reads: Uint8Array[] = []
    const buffers = new Set<ArrayBufferLike>()
    const over = Promise.withResolvers<void>()
    await b.handle('/frames', async (stream) => {
      const reader = new FrameReader(stream)
      for (const _ of frames) {
        const frame = await reader.next()
        reads.push(frame.slice())
        if (frame.buffer.byteLength <= 66_560) buffers.add(frame.buffer)
      }
      over.resolve()
    })
    const stream = await a.openStream({ peer: b.peer, addrs: [] }, '/frames')
    for (const frame of frames) await stream.write(frame)
    await over.promise
    expect(reads).toEqual(frames)
    expect(buffers.size).toBe(2) // 512 bytes, then one that grew to the bound
  })

  it('checks a header before it makes room for its body', async () => {
    const net = new MemoryNet()
    const [a, b] = [new MemoryHost(net, 1), new MemoryHost(net, 2)]
    const failed = Promise.withResolvers<unknown>()
    await b.handle('/frames', async (stream) => {
      await new FrameReader(stream).next().catch(failed.resolve)
    })
    const stream = await a.openStream({ peer: b.peer, addrs: [] }, '/frames')
    const frame = frameOf(72, 1)
    frame.set([0xff, 0xff, 0xff, 0xff], 4)
    await stream.write(frame.subarray(0, 24))
    expect(await failed.promise).toMatchObject({ code: 'FRAME_LENGTH' })
  })
})
