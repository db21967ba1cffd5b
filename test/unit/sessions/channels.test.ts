import { describe, expect, it } from 'vitest'
import { BYTE_STREAM_CHUNK_BYTES, decodeByteFrame, encodeByteFrame } from '../../../protocol/session/byte-frames.ts'
import { encodeChannelControl } from '../../../protocol/session/channel-control.ts'
import { ITEM_KINDS } from '../../../protocol/session/items.ts'
import { Arrivals } from '../../../src/sessions/arrivals.ts'
import { acceptStream, openStream } from '../../../src/sessions/byte-channel.ts'
import { type Channel, openChannel } from '../../../src/sessions/channel.ts'
import type { DurableSession } from '../../../src/sessions/durable-session.ts'
import type { Inbound, Session } from '../../../src/sessions/session.ts'
import { Pair, settle } from './memory-net.ts'

const text = (value: string) => new TextEncoder().encode(value)
const word = ({ payload }: Inbound) => new TextDecoder().decode(payload)

async function pair(): Promise<{ pair: Pair; a: Session; b: Session }> {
  const one = await Pair.create()
  const a = await one.open()
  return { pair: one, a, b: one.b.sessions[0] as Session }
}

async function wordsOf(channel: Channel): Promise<string[]> {
  const words: string[] = []
  for await (const item of channel) words.push(word(item))
  return words
}

describe('a channel', () => {
  it('[PSS-20] ends one direction while the other goes on, and both sides read what is under way first', async () => {
    const { a, b } = await pair()
    const [mine, theirs] = [openChannel(a, 16), openChannel(b, 16)]
    const sends = ['one', 'two'].map((value) => mine.send(text(value)))
    const ending = mine.end()
    expect(await wordsOf(theirs)).toEqual(['one', 'two'])
    await Promise.all([...sends, ending, theirs.peerEnded])
    await expect(mine.send(text('late'))).rejects.toMatchObject({ code: 'CHANNEL_ENDED' })
    const back = ['three', 'four'].map((value) => theirs.send(text(value)))
    const over = theirs.end()
    expect(await wordsOf(mine)).toEqual(['three', 'four'])
    await Promise.all([...back, over])
    expect([mine.isOver, theirs.isOver]).toEqual([true, true])
  })

  it('may be opened again after its end, and gets what came meanwhile', async () => {
    const { a, b } = await pair()
    for (let round = 0; round < 3; round++) {
      const [mine, theirs] = [openChannel(a, 16), openChannel(b, 16)]
      const ending = [mine.send(text(`round ${round}`)), mine.end(), theirs.end()]
      expect(await wordsOf(theirs)).toEqual([`round ${round}`])
      expect(await wordsOf(mine)).toEqual([])
      await Promise.all(ending)
    }
    const ahead = openChannel(a, 16)
    const ahead2 = ahead.send(text('ahead'))
    expect(word((await openChannel(b, 16).receive()) as Inbound)).toBe('ahead')
    void openChannel(b, 16).receive() // says that the message before is done with
    await ahead2
  })

  it('[F050] that is stopped by its reader fails its sender at once and drops what is under way', async () => {
    const { a, b } = await pair()
    const [mine, theirs] = [openChannel(a, 16), openChannel(b, 16)]
    const sends = Promise.allSettled(Array.from({ length: 100 }, () => mine.send(new Uint8Array(65_536))))
    expect((await theirs.receive())?.payload).toHaveLength(65_536)
    await theirs.stop({ code: 9 })
    const outcomes = await sends
    const failures = outcomes.filter((one) => one.status === 'rejected').map(({ reason }) => reason)
    expect(failures.length).toBeGreaterThan(60)
    for (const failure of failures) expect(failure).toMatchObject({ code: 'CHANNEL_STOPPED', data: { channel: 16, code: 9 } })
    await mine.end()
    await theirs.peerEnded
    expect(theirs.isOver).toBe(false)
  })

  it('stops waiting when a signal fires: in receive, send and end', async () => {
    const { a, b } = await pair()
    const [mine, theirs] = [openChannel(a, 16), openChannel(b, 16)]
    const abort = new AbortController()
    const reason = new Error('enough')
    const waiting = [
      theirs.receive({ signal: abort.signal }),
      ...Array.from({ length: 64 }, () => mine.send(new Uint8Array(65_536), { signal: abort.signal })),
      mine.end({ signal: abort.signal })
    ]
    const outcomes = Promise.allSettled(waiting.slice(1))
    await waiting[0]
    const next = theirs.receive({ signal: AbortSignal.timeout(60_000) })
    await next
    abort.abort(reason)
    for (const one of (await outcomes).slice(20)) expect(one).toEqual({ status: 'rejected', reason })
    await expect(theirs.receive({ signal: abort.signal })).rejects.toBe(reason)
  })

  it.each(['durable', 'live'] as const)('lets go at once of %s messages whose signal fired behind one that waits', async (mode) => {
    const { a, b } = await pair()
    openChannel(b, 16, { mode })
    const mine = openChannel(a, 16, { mode })
    const first = Promise.allSettled(Array.from({ length: 17 }, () => mine.send(new Uint8Array(65_536)))) // the window, and one more
    await settle()
    const before = (a as DurableSession).held()
    for (let i = 0; i < 40; i++) {
      const abort = new AbortController()
      const sends = Promise.allSettled(Array.from({ length: 50 }, () => mine.send(new Uint8Array(1_000_000), { signal: abort.signal })))
      abort.abort(new Error('enough'))
      for (const one of await sends) expect(one).toMatchObject({ status: 'rejected', reason: { message: 'enough' } })
    }
    expect((a as DurableSession).held()).toEqual(before)
    await openChannel(b, 16, { mode }).stop()
    await first
  })

  it('[PSS-06] that is live says where a change of connection may have lost messages, and goes on', async () => {
    const { pair: both, a, b } = await pair()
    const [mine, theirs] = [openChannel(a, 16, { mode: 'live' }), openChannel(b, 16, { mode: 'live' })]
    await mine.send(text('before'))
    expect(word((await theirs.receive()) as Inbound)).toBe('before')
    const waiting = theirs.receive()
    both.net.cut(both.a.host.peer, both.b.host.peer)
    await expect(waiting).rejects.toMatchObject({ code: 'CHANNEL_GAP' })
    await expect(mine.send(text('meanwhile'))).rejects.toMatchObject({ code: 'SESSION_LOST', data: { outcome: 'not-sent' } })
    await both.open()
    await openChannel(a, 16, { mode: 'live' }).send(text('after'))
    const next = theirs.receive().catch(() => theirs.receive())
    expect(word((await next) as Inbound)).toBe('after')
  })

  it('[PSS-06] that is durable carries its end over a lost connection', async () => {
    const { pair: both, a, b } = await pair()
    const [mine, theirs] = [openChannel(a, 16), openChannel(b, 16)]
    both.net.cut(both.a.host.peer, both.b.host.peer)
    const sending = [mine.send(text('kept')), mine.end()]
    await settle()
    await both.open()
    expect(await wordsOf(theirs)).toEqual(['kept'])
    await Promise.all(sending)
  })

  it('tells a reader when the session ends before the channel', async () => {
    const { a, b } = await pair()
    const waiting = openChannel(b, 16).receive()
    await a.close()
    await expect(waiting).rejects.toMatchObject({ code: 'SESSION_CLOSED', data: { reason: 'done', channel: 16 } })
  })

  it('[PSS-17] meets a control item of a later version without effect', async () => {
    const { a, b } = await pair()
    const theirs = openChannel(b, 16)
    await a.send(16, ITEM_KINDS.channelControl, Uint8Array.of(0x7f, 1, 2))
    const ending = a.send(16, ITEM_KINDS.channelControl, encodeChannelControl({ op: 'end' }))
    expect(await theirs.receive()).toBeUndefined()
    await ending
  })

  it('names the numbers that it cannot have', async () => {
    const { a } = await pair()
    for (const number of [0, -1, 1.5, 65_536]) {
      expect(() => openChannel(a, number)).toThrow(expect.objectContaining({ code: 'CHANNEL_NUMBER', field: 'number' }))
    }
    expect(() => openChannel(a, 16, { order: 'unordered', lanes: 65 })).toThrow(expect.objectContaining({ code: 'CHANNEL_NUMBER' }))
  })
})

describe('an unordered channel', () => {
  it('[PSS-20] [PSS-18] hands later messages up first while the stream of an earlier one stands still, and loses none', async () => {
    const { pair: both, a, b } = await pair()
    const options = { order: 'unordered', lanes: 4 } as const
    const [mine, theirs] = [openChannel(a, 16, options), openChannel(b, 16, options)]
    const got: string[] = []
    const loop = (async () => {
      for await (const item of theirs) got.push(word(item))
    })()
    const before = new Set(both.net.streams)
    await Promise.all(['w0', 'w1', 'w2', 'w3'].map((value) => mine.send(text(value))))
    const stuck = both.net.streams.find((stream) => !before.has(stream))?.a
    if (stuck === undefined) throw new Error('no stream was opened')
    const gate = Promise.withResolvers<void>()
    const write = stuck.write.bind(stuck)
    stuck.write = async (bytes) => {
      await gate.promise
      await write(bytes)
    }
    const sends = Array.from({ length: 20 }, (_, i) => mine.send(text(`m${i}`)))
    await settle()
    const passed = got.slice(4)
    expect(passed).toHaveLength(15)
    expect(passed).not.toContain('m0')
    gate.resolve()
    await Promise.all([...sends, mine.end(), loop])
    expect(got.slice(4).toSorted()).toEqual(Array.from({ length: 20 }, (_, i) => `m${i}`).toSorted())
  })
})

describe('a byte stream', () => {
  it('[PSS-06] live, dies with its connection and says so on both sides', async () => {
    const { pair: both, a, b } = await pair()
    const [writer, reader] = await Promise.all([openStream(a), acceptStream(b)])
    await writer.write(text('beginning'))
    expect(await reader.read()).toEqual(text('beginning'))
    const waiting = reader.read()
    both.net.cut(both.a.host.peer, both.b.host.peer)
    await expect(waiting).rejects.toMatchObject({ code: 'BYTE_STREAM_LOST' })
    await expect(writer.write(text('more'))).rejects.toMatchObject({ code: 'BYTE_STREAM_LOST' })
  })

  it('[PSS-06] durable, goes on over a new connection by itself', async () => {
    const { pair: both, a, b } = await pair()
    const content = new Uint8Array(300_000).map((_, i) => (i * 31) % 251)
    const [writer, reader] = await Promise.all([openStream(a, { mode: 'durable' }), acceptStream(b)])
    await writer.write(content.subarray(0, 150_000))
    both.net.cut(both.a.host.peer, both.b.host.peer)
    await writer.write(content.subarray(150_000))
    const closing = writer.close()
    await settle()
    await both.open()
    const chunks: Uint8Array[] = []
    for await (const chunk of reader) chunks.push(chunk)
    await closing
    expect(Buffer.compare(Buffer.concat(chunks), content)).toBe(0)
  })

  it('[PSS-18] whose bytes were changed on the way is refused by its SHA-256, on both sides', async () => {
    const { a, b } = await pair()
    const send = a.send.bind(a)
    a.send = async (channel, kind, payload, options) => {
      const frame = channel === 3 ? decodeByteFrame(payload) : undefined
      const changed = frame?.type === 'data' ? encodeByteFrame({ ...frame, bytes: frame.bytes.map((byte) => byte ^ 1) }) : payload
      await send(channel, kind, changed, options)
    }
    const [writer, reader] = await Promise.all([openStream(a), acceptStream(b)])
    await writer.write(text('content'))
    const closing = expect(writer.close()).rejects.toMatchObject({ code: 'BYTE_STREAM_STOPPED', data: { reason: 'corrupt' } })
    await reader.read()
    await expect(reader.read()).rejects.toMatchObject({ code: 'BYTE_STREAM_CORRUPT' })
    await closing
  })

  it('[PSS-18] that lacks a chunk is refused where the gap is', async () => {
    const { a, b } = await pair()
    const send = a.send.bind(a)
    a.send = async (channel, kind, payload, options) => {
      const frame = channel === 3 ? decodeByteFrame(payload) : undefined
      if (frame?.type === 'data' && frame.offset === BigInt(BYTE_STREAM_CHUNK_BYTES)) return
      await send(channel, kind, payload, options)
    }
    const [writer, reader] = await Promise.all([openStream(a), acceptStream(b)])
    await writer.write(new Uint8Array(3 * BYTE_STREAM_CHUNK_BYTES))
    await reader.read()
    await expect(reader.read()).rejects.toMatchObject({ code: 'BYTE_STREAM_CORRUPT', data: { held: BYTE_STREAM_CHUNK_BYTES } })
    await expect(writer.close()).rejects.toMatchObject({ code: 'BYTE_STREAM_STOPPED', data: { reason: 'gap' } })
  })

  it('waits for its turn, its reader and its end only as long as the signal allows', async () => {
    const { a, b } = await pair()
    const quick = () => AbortSignal.timeout(30)
    await expect(openStream(a, { signal: quick() })).rejects.toMatchObject({ name: 'TimeoutError' })
    const reader = acceptStream(b)
    const writer = await openStream(a, { label: 'second' })
    expect((await reader).label).toBe('second')
    await expect(openStream(a, { signal: quick() })).rejects.toMatchObject({ name: 'TimeoutError' })
    await expect((await reader).read({ signal: quick() })).rejects.toMatchObject({ name: 'TimeoutError' })
    await expect(writer.close({ signal: quick() })).rejects.toMatchObject({ name: 'TimeoutError' })
    const end = (await reader).read()
    await writer.close()
    expect(await end).toBeUndefined()
    await expect(acceptStream(b, { signal: quick() })).rejects.toMatchObject({ name: 'TimeoutError' })
  })

  it('of an application that waits with short deadlines, again and again, leaves nothing behind', async () => {
    const arrivals = new Arrivals()
    const abort = new AbortController()
    const waits = Promise.allSettled(Array.from({ length: 100 }, () => arrivals.next(abort.signal)))
    expect(arrivals.size).toBe(100)
    abort.abort(new Error('enough'))
    await waits
    expect(arrivals.size).toBe(0)
  })

  it('[PSS-06] durable, is offered again to a reader that took no answer to disk: OPEN counts only once the writer has ACCEPT', async () => {
    const { a, b } = await pair()
    const opening = openStream(a, { mode: 'durable', label: 'kept' })
    await settle()
    expect(a.info()).toMatchObject({ txSeq: '1', txAcked: '0' })
    const reader = await acceptStream(b)
    const writer = await opening
    await settle()
    expect(a.info()).toMatchObject({ txSeq: '1', txAcked: '1' })
    expect(b.info()).toMatchObject({ txSeq: '1', txAcked: '1' })
    writer.abort()
    await expect(reader.read()).rejects.toMatchObject({ code: 'BYTE_STREAM_RESET', data: { reason: 'cancelled' } })
  })

  it('[PSS-06] durable, opened again under its id goes on where the reader has it, and is answered at once when it is complete', async () => {
    const { a, b } = await pair()
    const id = new Uint8Array(16).fill(7)
    const content = new Uint8Array(200_000).map((_, i) => i % 241)
    const first = openStream(a, { mode: 'durable', id })
    const reader = await acceptStream(b)
    const writer = await first
    await writer.write(content.subarray(0, 120_000))
    const chunks: Uint8Array[] = []
    while (reader.position < 120_000) chunks.push((await reader.read()) as Uint8Array)
    writer.abort()
    await expect(reader.read()).rejects.toMatchObject({ code: 'BYTE_STREAM_RESET' })
    for (const held of [120_000, 200_000]) {
      const stored = content.subarray(0, held)
      const again = openStream(a, { mode: 'durable', id })
      const next = await acceptStream(b, { held: async () => ({ bytes: held, content: () => [stored] }) })
      const resumed = await again
      expect(resumed.held).toBe(held)
      await resumed.write(content)
      const closing = resumed.close()
      for await (const chunk of next) chunks.push(chunk)
      await closing
    }
    expect(Buffer.compare(Buffer.concat(chunks), content)).toBe(0)
  })

  it('[PSS-17] of a peer that offers 3,000 and sends junk between them is held once, and the next honest one is served', async () => {
    const { a, b } = await pair()
    const offered = acceptStream(b, { signal: AbortSignal.timeout(20_000) })
    await settle()
    const first = offered.then((reader) => reader.read())
    const outcome = expect(first).rejects.toMatchObject({ code: 'BYTE_STREAM_RESET', data: { reason: 'abandoned' } })
    for (let i = 1; i <= 3_000; i++) {
      const id = new Uint8Array(16)
      new DataView(id.buffer).setUint32(0, i)
      await a.send(3, ITEM_KINDS.live, encodeByteFrame({ type: 'open', id, length: undefined, label: '' }))
      await a.send(3, ITEM_KINDS.live, Uint8Array.of(i % 256, 1, 2))
      await a.send(3, ITEM_KINDS.live, encodeByteFrame({ type: 'data', id: id.toReversed(), offset: 5n, bytes: text('x') }))
      await a.send(3, ITEM_KINDS.live, encodeByteFrame({ type: 'done', id }))
    }
    await outcome
    const opening = openStream(a, { label: 'honest' })
    let reader = await acceptStream(b)
    while (reader.label !== 'honest') reader = await acceptStream(b)
    const writer = await opening
    await writer.write(text('content'))
    expect(await reader.read()).toEqual(text('content'))
    expect(b.info().state).toBe('established')
  })

  it('keeps to the length that it announced', async () => {
    const { a, b } = await pair()
    const [writer, reader] = await Promise.all([openStream(a, { length: 4 }), acceptStream(b)])
    expect(reader.length).toBe(4)
    await writer.write(text('abc'))
    await expect(writer.close()).rejects.toMatchObject({ code: 'BYTE_STREAM_LENGTH' })
    await reader.read().catch(() => {})
    await expect(reader.read()).rejects.toMatchObject({ code: 'BYTE_STREAM_RESET' })
  })
})
