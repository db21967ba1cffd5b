import { afterEach, describe, expect, it } from 'vitest'
import type { Host } from '../../src/net/host.ts'
import { addressOf, keyOf, makeValue, startHost, stopHosts, until } from './host-fixture.ts'

const PROTOCOL = '/test/many/1'
/** Well above the streams that a QUIC connection carries at once, 256. */
const TIMES = 700

afterEach(stopHosts)

async function pair(): Promise<{ a: Host; b: Host; connection: (isHalfClosed?: boolean) => Promise<string> }> {
  const [a, b] = await Promise.all([startHost(), startHost()])
  await b.handle(PROTOCOL, async (stream) => {
    await stream.write(await stream.read(1))
    await stream.close()
  })
  const connection = async (isHalfClosed = false) => {
    const stream = await a.openStream(addressOf(b), PROTOCOL)
    await stream.write(Uint8Array.of(1))
    if (isHalfClosed) await stream.closeWrite()
    await stream.read(1)
    await stream.close()
    return stream.connection.id
  }
  await connection()
  await until(a, () => a.dht.routingTableSize() > 0)
  return { a, b, connection }
}

describe('one QUIC connection', () => {
  it('carries any number of exchanges one after the other: none leaves a stream behind', async () => {
    const { connection } = await pair()
    const ids = new Set<string>()
    for (let i = 0; i < TIMES; i++) ids.add(await connection()).add(await connection(true))
    expect(ids.size).toBe(1)
  }, 120_000)

  it('carries any number of look-ups and puts of the DHT', async () => {
    const { a, connection } = await pair()
    const first = await connection()
    for (let i = 0; i < TIMES; i++) {
      await a.dht.closestPeers(keyOf('eid', i % 200))
      await a.dht.put(keyOf('eid', i % 200), makeValue(i + 1, Date.now() + 3_600_000))
    }
    expect(await connection()).toBe(first)
  }, 120_000)
})
