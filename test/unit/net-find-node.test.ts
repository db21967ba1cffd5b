import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import type { PeerId, Stream } from '@libp2p/interface'
import { peerIdFromPrivateKey } from '@libp2p/peer-id'
import { AbstractStream, type SendResult } from '@libp2p/utils'
import { multiaddr } from '@multiformats/multiaddr'
import { beforeAll, describe, expect, it } from 'vitest'
import { concat } from '../../protocol/bytes.ts'
import { ADDRS_MAX, CLOSER_MAX, findNode } from '../../src/net/find-node.ts'
import { delimited, FieldWriter, fieldsOf } from '../../src/net/protobuf.ts'

const KEY = new Uint8Array(34).fill(3)
const log = Object.assign(() => {}, { error() {}, trace() {}, enabled: false, newScope: () => log })
let ids: PeerId[]

beforeAll(async () => {
  ids = await Promise.all(
    Array.from({ length: CLOSER_MAX + 5 }, async (_, i) =>
      peerIdFromPrivateKey(await generateKeyPairFromSeed('Ed25519', new Uint8Array(32).fill(i + 1)))
    )
  )
})

/** A stream whose peer answers with these bytes and goes on listening. */
class Answering extends AbstractStream {
  readonly asked: Uint8Array[] = []
  readonly #answer: Uint8Array | 'nothing'
  constructor(answer: Uint8Array | 'nothing') {
    super({ id: '1', direction: 'outbound', protocol: '/x', log: log as never })
    this.#answer = answer
  }
  override sendData(data: { byteLength: number; subarray(): Uint8Array }): SendResult {
    this.asked.push(Uint8Array.from(data.subarray()))
    queueMicrotask(() => (this.#answer === 'nothing' ? this.onRemoteCloseWrite() : this.onData(this.#answer)))
    return { sentBytes: data.byteLength, canSendMore: true }
  }
  override sendReset(): void {}
  override async sendCloseWrite(): Promise<void> {}
  override async sendCloseRead(): Promise<void> {}
  override sendPause(): void {}
  override sendResume(): void {}
}

const frame = (message: Uint8Array) => concat([new FieldWriter().length(message.length).finish(), message])
const addr = (port: number) => multiaddr(`/ip4/127.0.0.1/udp/${port}/quic-v1`)

function answer(names: readonly { id: Uint8Array; addrs: readonly Uint8Array[] }[], type = 4): Uint8Array {
  const message = new FieldWriter().varint(1, type)
  for (const { id, addrs } of names) {
    const name = new FieldWriter().bytes(1, id)
    for (const one of addrs) name.bytes(2, one)
    message.bytes(8, name.varint(3, 1).finish())
  }
  return frame(message.finish())
}

const ask = async (bytes: Uint8Array | 'nothing', signal = new AbortController().signal) => {
  const stream = new Answering(bytes)
  return { stream, named: await findNode(async () => stream as unknown as Stream, KEY, signal) }
}
const bytesOf = (id: PeerId) => id.toMultihash().bytes

describe('asking a peer whom it knows near a key', () => {
  it('sends type and key, and gives names with their addresses in the order told', async () => {
    const [a, b] = ids as [PeerId, PeerId]
    const { stream, named } = await ask(
      answer([
        { id: bytesOf(b), addrs: [addr(1).bytes, addr(2).bytes] },
        { id: bytesOf(a), addrs: [] }
      ])
    )
    expect(named.map(({ id, multiaddrs }) => [id.toString(), multiaddrs.map(String)])).toEqual([
      [b.toString(), [addr(1).toString(), addr(2).toString()]],
      [a.toString(), []]
    ])
    const [question] = delimited(concat(stream.asked), 1_000)
    expect([...fieldsOf(question as Uint8Array)].map(({ number, value, bytes }) => [number, value, [...bytes]])).toEqual([
      [1, 4n, []],
      [2, 0n, [...KEY]]
    ])
  })

  it('[F104] takes no more names and addresses than their bounds, and passes over those that cannot be read', async () => {
    const many = Array.from({ length: ADDRS_MAX + 3 }, (_, i) => addr(i + 1).bytes)
    const [first] = ids as [PeerId]
    const broken = [
      { id: Uint8Array.of(1, 2, 3), addrs: [] },
      { id: bytesOf(first), addrs: [Uint8Array.of(0xff, 0xff, 0x01), addr(9).bytes] }
    ]
    const { named } = await ask(answer([...broken, ...ids.map((id) => ({ id: bytesOf(id), addrs: many }))]))
    expect(named[0]?.multiaddrs.map(String)).toEqual([addr(9).toString()])
    expect(named.length).toBeLessThanOrEqual(CLOSER_MAX)
    expect(Math.max(...named.map(({ multiaddrs }) => multiaddrs.length))).toBe(ADDRS_MAX)
  })

  it('[F104] fails where the peer answers another question, with nonsense, too much, or not at all', async () => {
    const [first] = ids as [PeerId]
    await expect(ask(answer([{ id: bytesOf(first), addrs: [] }], 0))).rejects.toThrow(/another question/)
    await expect(ask(frame(Uint8Array.of(0x42, 0xff)))).rejects.toBeInstanceOf(RangeError)
    await expect(ask(Uint8Array.of(0xff, 0xff, 0xff, 0x7f))).rejects.toBeInstanceOf(RangeError)
    await expect(ask('nothing')).rejects.toThrow(/without an answer/)
  })

  it('ends with its signal, and drops the stream', async () => {
    const patience = new AbortController()
    const stream = new Answering(new Uint8Array(0))
    const asking = findNode(async () => stream as unknown as Stream, KEY, patience.signal)
    patience.abort(new Error('enough'))
    await expect(asking).rejects.toThrow('enough')
    expect(stream.status).toBe('aborted')
  })
})
