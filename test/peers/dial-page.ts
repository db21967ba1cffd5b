/** Bundled for a page: the host of `rookery/browser` by itself, to see what its transports carry. */
import { nobleCrypto } from '../../protocol/crypto/noble.ts'
import { page } from '../../src/browser/page-host.ts'
import { createHostOn } from '../../src/net/create-host.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { recordRules } from '../../src/spaces/record-rules.ts'

export interface Echoed {
  transport: string
  remoteAddr: string
  bytes: number
  same: boolean
  /** from the dial to the last byte of the echo */
  elapsedMs: number
}

/** Dials a peer at one address, and sends `length` random bytes through a protocol that echoes them. */
export async function echoed(target: { peer: string; addr: string; protocol: string; length: number }): Promise<Echoed> {
  const { peer, addr, protocol, length } = target
  const base = { clock: systemClock, random: systemRandom, crypto: nobleCrypto, logger: silentLogger }
  const host = await createHostOn(
    page,
    { ...base, validator: recordRules(nobleCrypto) },
    { privateKey: systemRandom.bytes(32), listen: [], dht: { mode: 'client' } }
  )
  try {
    const startedMs = systemClock.monotonicMs()
    const stream = await host.openStream({ peer, addrs: [addr] }, protocol)
    const sent = systemRandom.bytes(length)
    const written = stream.write(sent)
    const back = await stream.read(length)
    await written
    const elapsedMs = systemClock.monotonicMs() - startedMs
    const { transport, remoteAddr } = stream.connection
    await stream.close()
    return { transport, remoteAddr, bytes: back.length, same: back.every((byte, i) => byte === sent[i]), elapsedMs }
  } finally {
    await host.stop()
  }
}
