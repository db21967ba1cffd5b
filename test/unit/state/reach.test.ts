import { describe, expect, it } from 'vitest'
import { SFC_SCOPE, type SfcBlock } from '../../../protocol/session/sfc.ts'
import { encodeEseBatch, eseBatch } from '../../../protocol/state/batch.ts'
import { EseSealer, eseId, eseSeed } from '../../../protocol/state/seal.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import type { DurableSession } from '../../../src/sessions/durable-session.ts'
import type { Session } from '../../../src/sessions/session.ts'
import type { EseSide } from '../../../src/state/ese-side.ts'
import type { SessionEse } from '../../../src/state/session-ese.ts'
import { type NodeInit, Pair, settle } from '../sessions/memory-net.ts'

const block: SfcBlock = {
  site: 'any',
  scopes: SFC_SCOPE.READ_ESE | SFC_SCOPE.WRITE_ESE,
  eseBytesMax: 65_536,
  messagesPerMinuteMax: 600,
  payloadBytesMax: 65_536,
  sessionSecondsMax: 3_600,
  storedBytesMax: 0,
  concurrentTasksMax: 0,
  region: 0
}
const underContract = { b: { contract: block } }

async function open(init: { b?: NodeInit } = {}, options: { contract?: Partial<SfcBlock>; exclusive?: boolean } = {}) {
  const pair = await Pair.create(init)
  const a = (await pair.open(options)) as DurableSession
  await settle()
  return { pair, a, b: pair.b.sessions[0] as Session }
}

const eseOf = (session: Session) => (session.states.own as unknown as { ese: SessionEse }).ese

/** The session's next write leaves as these bytes, whatever its own software would have made of it. */
function forge(session: Session, payload: Uint8Array): void {
  const { own } = eseOf(session)
  const fake = { seal: () => payload, run: new Uint8Array(16).fill(1), n: 1n }
  ;(own as unknown as { sealer: EseSide['sealer'] }).sealer = () => fake as unknown as EseSealer
  session.states.own.set('x', 1).catch(() => {})
}

const batch = encodeEseBatch(eseBatch([{ op: 'set', key: 'x', value: 'foreign' }]))
const sealed = (seed: Uint8Array, id: Uint8Array) =>
  new EseSealer(nodeCrypto, seed, { id, run: new Uint8Array(16).fill(1), use: 'op' }).seal(batch)

describe('what one session can reach', () => {
  it.each([
    ['under a contract', underContract, { contract: {} }, 'contract'],
    ['without one', {}, {}, 'violation']
  ])('[SFC-02] is its designated pair: an item for any other ESE closes the session, %s', async (_title, init, options, reason) => {
    const { a, b } = await open(init, options)
    const other = eseId(nodeCrypto, new Uint8Array(16).fill(9), a.local.eid)
    forge(a, sealed(new Uint8Array(32).fill(5), other))
    expect((await b.closed).reason).toBe(reason)
    expect(b.states.peer.status).toBe('gone')
  })

  it('[ESE-02] [SFC-02] not the ESE that the receiver itself writes', async () => {
    const { a, b } = await open(underContract, { contract: {} })
    await b.states.own.set('x', 'mine')
    forge(a, sealed(new Uint8Array(32).fill(5), eseOf(a).peer.id))
    expect((await b.closed).reason).toBe('contract')
  })

  it("[ESE-03] keys come from the session's secrets and the writer's EID: an item under any others does not open", async () => {
    const { a, b } = await open()
    const { sid } = a.record
    forge(a, sealed(eseSeed(nodeCrypto, new Uint8Array(32).fill(5), sid, a.local.eid), eseOf(a).own.id))
    expect((await b.closed).reason).toBe('violation')
  })

  it('[ESE-03] the same session under another EID has another id and another key', () => {
    const exported = new Uint8Array(32).fill(1)
    const sid = new Uint8Array(16).fill(2)
    const [one, two] = [Pair, Pair].map((_, i) => nodeCrypto.ed25519.publicKey(new Uint8Array(32).fill(i + 1)) as Session['remote'])
    if (one === undefined || two === undefined) throw new Error('two keys are needed')
    expect(eseSeed(nodeCrypto, exported, sid, one)).not.toEqual(eseSeed(nodeCrypto, exported, sid, two))
    expect(eseId(nodeCrypto, sid, one)).not.toEqual(eseId(nodeCrypto, sid, two))
  })

  it('[SFC-02] [SFC-08] holds in the other direction too: a peer that writes beyond its scopes is closed, and nothing of it is kept', async () => {
    const scopes = SFC_SCOPE.WRITE_ESE
    const { a, b } = await open({ b: { contract: { ...block, scopes } } }, { contract: {} })
    const ese = eseOf(a)
    ;(ese as unknown as { checkScopes(): void }).checkScopes = () => {}
    const mirror = eseOf(b).peer
    a.states.own.set('x', 'not granted').catch(() => {})
    expect((await b.closed).reason).toBe('contract')
    expect(mirror.replica.map.size).toBe(0)
  })

  it('[SFC-08] a peer whose state grows beyond the max ESE bytes is closed', async () => {
    const { a, b } = await open({ b: { contract: { ...block, eseBytesMax: 2_048 } } }, { contract: {} })
    const { map } = eseOf(a).own.replica
    Object.defineProperty(map, 'bounds', { value: { keysMax: 100, valueBytesMax: 1_000_000, bytesMax: 1_000_000 } })
    for (let i = 0; i < 5; i++) a.states.own.set(`k${i}`, 'x'.repeat(500)).catch(() => {})
    expect((await b.closed).reason).toBe('contract')
    expect(b.info().endReason).toBe('contract')
  })

  it('[PSS-22] [G-48] EXCLUSIVE is asked for in the handshake, told on both sides, and not given by a session that is open without', async () => {
    const { pair, a, b } = await open({}, { exclusive: true })
    expect([a.states.exclusive, b.states.exclusive, a.info().exclusive]).toEqual([true, true, true])
    expect(await pair.open({ exclusive: true })).toBe(a)
    expect(await pair.open()).toBe(a)
    const plain = await open()
    expect(plain.b.states.exclusive).toBe(false)
    await expect(plain.pair.open({ exclusive: true })).rejects.toMatchObject({
      code: 'EXCLUSIVE_UNMET',
      kind: 'conflict',
      field: 'exclusive'
    })
  })

  it('[PSS-22] an exclusive pair keeps being one when the session is taken up again', async () => {
    const { pair, a, b } = await open({}, { exclusive: true })
    await a.states.own.set('x', 1)
    a.epoch?.lose(new Error('the cable is out'))
    while (a.info().state !== 'established') {
      pair.clock.advance(1_000)
      await settle()
    }
    await a.states.own.set('y', 2)
    expect([a.states.exclusive, b.states.exclusive, b.states.peer.size]).toEqual([true, true, 2])
  })
})
