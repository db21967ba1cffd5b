import type { Stream } from '@libp2p/interface'
import { AbstractStream, type SendResult } from '@libp2p/utils'
import { describe, expect, it } from 'vitest'
import { Libp2pByteStream } from '../../src/net/libp2p-stream.ts'
import { collect } from '../../src/net/stream-bytes.ts'
import { ManualClock } from '../../src/platform/clock.ts'

class Loose extends AbstractStream {
  override sendData(data: { byteLength: number }): SendResult {
    return { sentBytes: data.byteLength, canSendMore: true }
  }
  override sendReset(): void {}
  override async sendCloseWrite(): Promise<void> {}
  override async sendCloseRead(): Promise<void> {}
  override sendPause(): void {}
  override sendResume(): void {}
}

const log = Object.assign(() => {}, { error() {}, trace() {}, enabled: false, newScope: () => log })
const stream = () => new Loose({ id: '1', direction: 'outbound', protocol: '/x', log: log as never })
const signal = new AbortController().signal

/** As libp2p leaves a stream whose peer sent and ended in one go while the protocol was still being agreed on: it has said its end already. */
function endedEarly(): Loose {
  const early = stream()
  early.onRemoteCloseWrite()
  early.unshift(Uint8Array.of(1, 2, 3))
  return early
}

describe('a stream that ended while its protocol was agreed on', () => {
  it('[PSS-05] still gives what came before its end, and then ends', async () => {
    const early = endedEarly()
    expect(early.readableEnded).toBe(true)
    const bytes = new Libp2pByteStream(early as unknown as Stream, { transport: 'tcp' } as never, new ManualClock())
    expect([...(await bytes.read(2, { signal }))]).toEqual([1, 2])
    expect([...(await bytes.read(1, { signal }))]).toEqual([3])
    await expect(bytes.read(1, { signal })).rejects.toMatchObject({ code: 'STREAM_ENDED' })
  })

  it('is collected to its end', async () => {
    expect([...(await collect(endedEarly() as unknown as Stream, { bytesMax: 3, signal }))]).toEqual([1, 2, 3])
  })
})

describe('bytes collected from a stream', () => {
  it('are all until its end, or as many as are enough', async () => {
    const slow = stream()
    const all = collect(slow as unknown as Stream, { bytesMax: 10, signal })
    slow.onData(Uint8Array.of(1))
    slow.onData(Uint8Array.of(2, 3))
    slow.onRemoteCloseWrite()
    expect([...(await all)]).toEqual([1, 2, 3])
    const open = stream()
    const enough = collect(open as unknown as Stream, { bytesMax: 10, signal, isEnough: ({ length }) => length > 1 })
    open.onData(Uint8Array.of(1))
    open.onData(Uint8Array.of(2))
    expect([...(await enough)]).toEqual([1, 2])
  })

  it('are given up on above their bound, at a reset, and when nobody waits any more', async () => {
    const long = stream()
    const tooMany = collect(long as unknown as Stream, { bytesMax: 2, signal })
    long.onData(new Uint8Array(3))
    await expect(tooMany).rejects.toBeInstanceOf(RangeError)
    const dropped = stream()
    const reset = collect(dropped as unknown as Stream, { bytesMax: 2, signal })
    dropped.onRemoteReset()
    await expect(reset).rejects.toThrow(/reset/)
    const patience = new AbortController()
    const waiting = collect(stream() as unknown as Stream, { bytesMax: 2, signal: patience.signal })
    patience.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
  })
})
