import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { OBJECT_LIFE_MAX_MS } from '../../protocol/delivery/object.ts'
import { mailKey } from '../../protocol/discovery/dht-key.ts'
import type { Evidence } from '../../protocol/evidence/proof.ts'
import { verifyEvidence } from '../../protocol/evidence/proof.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import { buildRecord, decodeRecord } from '../../protocol/records/envelope.ts'
import { MAIL_TTL_SEC, type Mail, type MailRecord, mailType } from '../../protocol/records/mail.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { FORMER_KEEPERS_MAX, MailRecords } from '../../src/spaces/mail-records.ts'
import { cborCodec } from '../../src/store/store.ts'
import { fakeAgent } from './fakes/fake-agent.ts'
import { FakeNetwork } from './fakes/fake-network.ts'
import { type FakeNode, fakeNode } from './fakes/fake-node.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const [alice, kate, carl] = [fakeAgent('alice'), fakeAgent('kate'), fakeAgent('carl')]

let clock: ManualClock
let network: FakeNetwork
/** alice's node, another's, and one that holds */
let a: FakeNode
let b: FakeNode
let c: FakeNode
/** whom alice names */
let keepers: Eid[]
let isPublic: boolean
const opened: MailRecords[] = []

async function mailOf(node: FakeNode, onEquivocation: (pair: Evidence) => void = () => {}): Promise<MailRecords> {
  const mail = await MailRecords.open({
    host: node.host,
    store: node.store,
    clock,
    random: seededRandom(1),
    crypto: nodeCrypto,
    logger: silentLogger,
    locators: node.locators,
    agents: (hex) => node.agents.get(hex),
    keepers: () => keepers,
    isPublic: () => isPublic,
    evidence: { onEquivocation }
  })
  opened.push(mail)
  return mail
}

beforeEach(async () => {
  clock = new ManualClock()
  network = new FakeNetwork(clock)
  keepers = [kate.eid]
  isPublic = true
  a = await fakeNode(network, clock, 'alice', [alice])
  b = await fakeNode(network, clock, 'bob')
  c = await fakeNode(network, clock, 'carol')
  network.meet(a.host, b.host, c.host)
})

afterEach(async () => {
  for (const mail of opened.splice(0)) await mail.stop()
  for (const node of [a, b, c]) await node.stop()
})

const KEY = toHex(mailKey(alice.eid))
const bytesAt = (node: FakeNode) => node.host.values.get(KEY)
const heldBy = (node: FakeNode): Mail => decodeRecord(mailType, bytesAt(node) as Uint8Array).payload
const forget = () => {
  for (const node of [a, b, c]) node.host.values.delete(KEY)
}
const signed = (change: Partial<Mail> = {}): MailRecord => {
  const ts = Math.floor(clock.nowMs() / 1_000)
  const mail: Mail = { eid: alice.eid, mbox: alice.mailboxKey, keepers, gen: clock.nowMs(), ts, exp: ts + MAIL_TTL_SEC, ...change }
  return buildRecord(nodeCrypto, mailType, mail, alice.signer)
}
/** Moves the clock and lets what falls due end. */
async function pass(ms: number, stepMs = HOUR_MS): Promise<void> {
  for (let left = ms; left > 0; left -= stepMs) {
    clock.advance(Math.min(stepMs, left))
    await new Promise((resolve) => setImmediate(resolve))
    for (const mail of opened) await mail.idle()
  }
}

describe('the mail record of an agent of ours', () => {
  it('[G-18] names its keepers and its mailbox key for a week, with a number of its own', async () => {
    const mail = await mailOf(a)
    await mail.publish(alice)
    expect(heldBy(c)).toMatchObject({ eid: alice.eid, mbox: alice.mailboxKey, keepers: [kate.eid] })
    expect(heldBy(c).exp - heldBy(c).ts).toBe(MAIL_TTL_SEC)
    expect(mail.published(alice)).toEqual(bytesAt(c))
  })

  it('[G-18] is not there for an agent without keepers, nor for one that the network may not hear of', async () => {
    keepers = []
    const mail = await mailOf(a)
    await mail.publish(alice)
    keepers = [kate.eid]
    isPublic = false
    await mail.publish(alice)
    expect(bytesAt(c)).toBeUndefined()
    expect(mail.published(alice)).toBeUndefined()
  })

  it('[F028] is put again every six hours and signed anew at half of its life, also by a later run', async () => {
    const mail = await mailOf(a)
    await mail.publish(alice)
    const first = bytesAt(c)
    forget()
    await pass(6 * HOUR_MS)
    expect(bytesAt(c)).toEqual(first)
    await mail.stop()
    forget()
    await mailOf(a)
    await pass(1_000, 1_000)
    expect(Uint8Array.from(bytesAt(c) ?? [])).toEqual(first)
    await pass(3.5 * DAY_MS)
    expect(heldBy(c).gen).toBeGreaterThan(decodeRecord(mailType, first as Uint8Array).payload.gen)
  })

  it('[F085] is signed anew when keepers change, above what the network holds of it, and stays as it is when nothing changed', async () => {
    const mail = await mailOf(a)
    await mail.publish(alice)
    const first = heldBy(c)
    await mail.publish(alice)
    expect(heldBy(c).gen).toBe(first.gen)
    keepers = [carl.eid]
    await mail.publish(alice)
    expect(heldBy(c)).toMatchObject({ keepers: [carl.eid] })
    expect(heldBy(c).gen).toBeGreaterThan(first.gen)
    const elsewhere = signed({ gen: clock.nowMs() + 30_000 })
    for (const node of [a, b, c]) node.host.values.set(KEY, elsewhere.bytes)
    const newDisk = await fakeNode(network, clock, 'alice-new-disk', [alice])
    network.meet(newDisk.host, c.host)
    await (await mailOf(newDisk)).publish(alice)
    expect(heldBy(c).gen).toBe(elsewhere.payload.gen + 1)
    await newDisk.stop()
  })

  it('[G-18] names nobody once its owner named nobody, so that no sender leaves mail where it is not fetched, and then runs out', async () => {
    const mail = await mailOf(a)
    await mail.publish(alice)
    keepers = []
    await mail.publish(alice)
    expect(heldBy(c)).toMatchObject({ keepers: [] })
    const last = heldBy(c).exp
    await pass(8 * DAY_MS, 6 * HOUR_MS)
    expect(heldBy(c).exp).toBe(last)
  })

  it('[D-26] ends with a tombstone where it was, and for good', async () => {
    const mail = await mailOf(a)
    await mail.publish(alice)
    await mail.withdraw(alice)
    expect(heldBy(c)).toMatchObject({ gone: true, keepers: [] })
    await expect(mail.publish(alice)).rejects.toMatchObject({ code: 'AGENT_WITHDRAWN', field: 'did', value: alice.did })
    expect(mail.published(alice)).toBeUndefined()
    await mail.stop()
    await (await mailOf(a)).withdraw(alice)
    expect(heldBy(c)).toMatchObject({ gone: true })
  })
})

describe('records on a damaged disk', () => {
  it('[F065] that cannot be read end no start: our own is signed anew, what was remembered is looked up again', async () => {
    const mail = await mailOf(a)
    await mail.publish(alice)
    await (await mailOf(b)).mailbox(alice.eid)
    await mail.stop()
    for (const [node, table] of [
      [a, 'own-mail'],
      [b, 'seen-mail'],
      [b, 'seen-locators']
    ] as const) {
      const rows = node.store.table(table, cborCodec())
      await node.store.commit([rows.put(alice.eidHex, { r: Uint8Array.of(1), s: 1, q: false })])
    }
    const again = await mailOf(a)
    expect(again.published(alice)).toBeUndefined()
    await again.publish(alice)
    expect(heldBy(c)).toMatchObject({ keepers: [kate.eid] })
    await b.restart()
    expect(await (await mailOf(b)).mailbox(alice.eid)).toMatchObject({ keepers: [kate.eid], by: 'mail' })
  })
})

describe('an agent that was away', () => {
  it('[G-18] still asks the keepers that senders know of, until what they may hold has ended, over a restart too', async () => {
    const mail = await mailOf(a)
    await mail.publish(alice)
    const { exp } = heldBy(c)
    expect(mail.former(alice)).toEqual([])
    keepers = [carl.eid]
    await mail.publish(alice)
    expect(mail.former(alice)).toEqual([kate.eid])
    await mail.stop()
    const again = await mailOf(a)
    expect(again.former(alice)).toEqual([kate.eid])
    clock.advance(exp * 1_000 + OBJECT_LIFE_MAX_MS - clock.nowMs() - 1)
    expect(again.former(alice)).toEqual([kate.eid])
    clock.advance(1)
    expect(again.former(alice)).toEqual([])
  })

  it('[G-18] finds by it keepers that its new disk knows nothing of', async () => {
    await (await mailOf(a)).publish(alice)
    keepers = [carl.eid]
    const newDisk = await fakeNode(network, clock, 'alice-new-disk', [alice])
    network.meet(newDisk.host, c.host)
    const mail = await mailOf(newDisk)
    await mail.publish(alice)
    expect(mail.former(alice)).toEqual([kate.eid])
    await newDisk.stop()
  })

  it('remembers so many former keepers and no more', async () => {
    const mail = await mailOf(a)
    for (let i = 0; i < FORMER_KEEPERS_MAX + 4; i++) {
      keepers = [fakeAgent(`keeper ${i}`).eid]
      await mail.publish(alice)
      clock.advance(1_000)
    }
    expect(mail.former(alice)).toHaveLength(FORMER_KEEPERS_MAX)
    await mail.stop()
    expect((await mailOf(a)).former(alice)).toHaveLength(FORMER_KEEPERS_MAX)
  })
})

describe('a keeper', () => {
  it('[G-18] puts the record of its audience again, the very bytes, until it ends', async () => {
    const mail = await mailOf(b)
    const record = signed()
    mail.keepAlive(alice.eidHex, record)
    await pass(1_000, 1_000)
    expect(bytesAt(c)).toEqual(record.bytes)
    forget()
    await pass(6 * HOUR_MS)
    expect(bytesAt(c)).toEqual(record.bytes)
    await pass(7 * DAY_MS, 6 * HOUR_MS)
    forget()
    await pass(2 * DAY_MS, 6 * HOUR_MS)
    expect(bytesAt(c)).toBeUndefined()
  })

  it('puts only the newest that it was handed', async () => {
    const mail = await mailOf(b)
    mail.keepAlive(alice.eidHex, signed())
    const newer = signed({ gen: clock.nowMs() + 1 })
    mail.keepAlive(alice.eidHex, newer)
    await pass(12 * HOUR_MS)
    expect(bytesAt(c)).toEqual(newer.bytes)
  })
})

describe('a sender that comes by only when the agent is long away', () => {
  it('[G-18] [F082] learns from it what to seal to and who keeps, after the locator has run out', async () => {
    await a.locators.publish(alice)
    await (await mailOf(a)).publish(alice)
    const mail = await mailOf(b)
    expect(await mail.mailbox(alice.eid)).toMatchObject({ by: 'locator' })
    await a.locators.stop()
    clock.advance(2 * DAY_MS)
    expect(await mail.mailbox(alice.eid)).toEqual({ mailboxKey: alice.mailboxKey, keepers: [kate.eid], by: 'mail' })
    clock.advance(6 * DAY_MS)
    await expect(mail.mailbox(alice.eid)).rejects.toMatchObject({ code: 'AGENT_NOT_SERVED' })
  })

  it('[F031] [D-26] takes neither an older one than it saw, nor one that is gone or forged, and knows so after a restart', async () => {
    const older = signed().bytes
    await (await mailOf(a)).publish(alice)
    clock.advance(2_000)
    const newer = signed({ keepers: [carl.eid], gen: clock.nowMs() })
    for (const node of [a, b, c]) node.host.values.set(KEY, newer.bytes)
    const mail = await mailOf(b)
    expect((await mail.mailbox(alice.eid)).keepers).toEqual([carl.eid])
    await mail.stop()
    for (const node of [a, b, c]) node.host.lies = older
    const again = await mailOf(b)
    clock.advance(2 * HOUR_MS)
    expect((await again.mailbox(alice.eid)).keepers).toEqual([carl.eid])
    const forged = buildRecord(nodeCrypto, mailType, { ...newer.payload, eid: kate.eid, keepers: [] }, kate.signer).bytes
    for (const node of [a, b, c]) node.host.lies = forged
    clock.advance(2 * HOUR_MS)
    expect((await again.mailbox(alice.eid)).keepers).toEqual([carl.eid])
    const gone = signed({ keepers: [], gone: true, gen: clock.nowMs() }).bytes
    for (const node of [a, b, c]) node.host.lies = gone
    clock.advance(2 * HOUR_MS)
    await expect(again.mailbox(alice.eid)).rejects.toMatchObject({ code: 'AGENT_UNKNOWN' })
    for (const node of [a, b, c]) node.host.lies = newer.bytes
    clock.advance(2 * HOUR_MS)
    await expect(again.mailbox(alice.eid)).rejects.toMatchObject({ code: 'AGENT_UNKNOWN' })
  })

  it('[TRM-07] holds two of one generation for evidence, and the first for what counts', async () => {
    const [one, two] = [signed(), signed({ keepers: [carl.eid] })]
    const found: Evidence[] = []
    const mail = await mailOf(b, (pair) => found.push(pair))
    for (const node of [a, b, c]) node.host.values.set(KEY, one.bytes)
    expect((await mail.mailbox(alice.eid)).keepers).toEqual([kate.eid])
    for (const node of [a, b, c]) node.host.values.set(KEY, two.bytes)
    clock.advance(2 * HOUR_MS)
    expect((await mail.mailbox(alice.eid)).keepers).toEqual([kate.eid])
    expect(found.length).toBeGreaterThan(0)
    expect(() => verifyEvidence(nodeCrypto, found[0] as Evidence)).not.toThrow()
  })
})
