import { createSocket } from 'node:dgram'
import { concat, equals } from '../../protocol/bytes.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'

/** A datagram of a first packet has at least this many bytes (RFC 9000 §14.1); a shorter one is not answered. */
const FIRST_BYTES = 1_200
/** Long header, Initial; a version that no server speaks (RFC 9000 §15), so that it answers with those it does and keeps nothing. */
const HEAD = Uint8Array.of(0xc0, 0x1a, 0x2a, 0x3a, 0x4a)
const ID_BYTES = 8
const AGAIN_MS = 1_000

/** Whether the QUIC server at an address of this machine answers within `patienceMs`: its socket receives and sends. */
export async function quicAnswers(
  { clock, random }: { clock: Clock; random: Random },
  { host, port }: { host: string; port: number },
  patienceMs: number
): Promise<boolean> {
  const [theirs, ours] = [random.bytes(ID_BYTES), random.bytes(ID_BYTES)]
  const head = concat([HEAD, Uint8Array.of(ID_BYTES), theirs, Uint8Array.of(ID_BYTES), ours])
  const packet = concat([head, new Uint8Array(FIRST_BYTES - head.length)])
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  const cancels = [clock.after(patienceMs, () => resolve(false))]
  socket.on('error', () => {}) // of one try; the next one tells
  socket.on('message', (bytes) => {
    if (isAnswer(bytes, ours)) resolve(true)
  })
  const ask = () => {
    socket.send(packet, port, host, () => {})
    cancels.push(clock.after(AGAIN_MS, ask))
  }
  ask()
  try {
    return await promise
  } finally {
    for (const cancel of cancels) cancel()
    socket.close()
  }
}

/** Version 0, to the id that we named: the answer to a version that is not known (RFC 9000 §17.2.1). */
function isAnswer(bytes: Uint8Array, ours: Uint8Array): boolean {
  const isNegotiation = bytes.length > 6 + ID_BYTES && (bytes[0] as number) >= 0x80 && [1, 2, 3, 4].every((i) => bytes[i] === 0)
  return isNegotiation && bytes[5] === ID_BYTES && equals(bytes.subarray(6, 6 + ID_BYTES), ours)
}
