import { MemoryLevel } from 'memory-level'
import { concat, toHex, utf8 } from '../../../protocol/bytes.ts'
import { encodeCbor } from '../../../protocol/cbor.ts'
import type { EidHex } from '../../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { ClockGuard } from '../../../src/delivery/clock-guard.ts'
import { LevelAsleepQueue } from '../../../src/delivery/level-asleep-queue.ts'
import { Outbox } from '../../../src/delivery/outbox.ts'
import { OutgoingObjects } from '../../../src/delivery/outgoing.ts'
import { ManualClock } from '../../../src/platform/clock.ts'
import { silentLogger } from '../../../src/platform/logger.ts'
import type { Random } from '../../../src/platform/random.ts'
import { bytesCodec, Store } from '../../../src/store/store.ts'
import { mutateCbor } from '../engine/mutate-cbor.ts'
import { Script } from '../engine/script.ts'
import type { FuzzTarget } from '../target.ts'
import { mustBe, NOW_MS, refusedOrLater } from './support.ts'

const [A, B] = [1, 2].map((fill) => toHex(new Uint8Array(32).fill(fill))) as [EidHex, EidHex]
const TABLES = ['asleep-queue', 'outbox', 'outgoing'] as const

function storeInMemory(clock: ManualClock): Store {
  return new Store(new MemoryLevel<string, Uint8Array>({ valueEncoding: 'view', storeEncoding: 'view' }), { clock })
}

/** A row as the disk gives it back, damaged or made by somebody: its table, then its bytes. Those of the queue get a checksum that fits. */
const rows: FuzzTarget = {
  name: 'rows',
  bytesMax: 2_048,
  mutators: [
    mutateCbor([
      'v',
      'state',
      'kept',
      'refused',
      'by',
      'reason',
      'receipts',
      'conf',
      'task',
      'kind',
      'object',
      'opaque',
      'slot',
      'from',
      'iss'
    ])
  ],
  seeds: () => {
    const queue = {
      v: 1,
      key: `${A}/00000000000001`,
      kind: 'opaque',
      from: 'p',
      iss: '',
      id: 'ab',
      at: NOW_MS,
      exp: NOW_MS + 9_999,
      object: utf8('x')
    }
    const outbox = {
      v: 1,
      id: 'i',
      mid: 'm',
      msg: utf8('{"messageId":"m"}'),
      at: NOW_MS,
      exp: NOW_MS + 9_999,
      state: 'kept',
      by: 1,
      changed: NOW_MS,
      receipts: [[B, utf8('r')]]
    }
    const outgoing = { v: 1, digest: new Uint8Array(32), object: utf8('o'), exp: NOW_MS + 9_999 }
    return [queue, outbox, outgoing].flatMap((row, table) => [concat([Uint8Array.of(table), encodeCbor(row)])])
  },
  async run(bytes) {
    const table = TABLES[(bytes[0] ?? 0) % TABLES.length] ?? 'outbox'
    const row = bytes.subarray(1)
    const clock = new ManualClock(NOW_MS)
    const store = storeInMemory(clock)
    const random: Random = { bytes: (length: number) => new Uint8Array(length) } as Random
    const components = { store, crypto: nodeCrypto, clock, random, logger: silentLogger }
    const key = table === 'outbox' ? `${A}/${B}/00000000000001` : table === 'outgoing' ? `${A}${B}` : `${A}/00000000000001`
    const value = table === 'asleep-queue' ? concat([nodeCrypto.sha256(row).subarray(0, 8), row]) : row
    await store.commit([store.table(table, bytesCodec).put(key, value)])
    const clockGuard = await ClockGuard.open(components)
    const queue = await LevelAsleepQueue.open({ ...components, clockGuard })
    const held = await queue.list(A)
    mustBe(held.length + queue.damaged <= 1, 'a row is read or set aside')
    mustBe((await queue.usage(A)).messages === held.length, 'usage counts what is there')
    await refusedOrLater(() => queue.restore(A))
    const outbox = await Outbox.open(components)
    await refusedOrLater(() => outbox.sweep())
    for (const entry of outbox.list()) {
      await refusedOrLater(() => outbox.message(entry))
      await refusedOrLater(() => outbox.evidence(entry))
    }
    const outgoing = await OutgoingObjects.open(components)
    await refusedOrLater(() => outgoing.get(key))
    await refusedOrLater(() => outgoing.prune())
    await store.close()
  }
}

const BOUNDS = { messagesMax: 4, bytesMax: 64, messagesPerPeerMax: 2, ttlMaxMs: 60_000 }

/** A queue under deposits, drops, time and restarts: its bounds hold, the same deposit is one record, and what is listed survives a restart. */
const queue: FuzzTarget = {
  name: 'queue',
  bytesMax: 256,
  mutators: [],
  seeds: () => [
    Uint8Array.from([0, 0, 3, 1, 2, 3, 10, 0, 1, 2, 9, 9, 10, 4, 1, 0, 3, 200, 2]),
    Uint8Array.from([0, 0, 1, 7, 60, 0, 0, 1, 7, 60, 0, 1, 1, 8, 60, 0, 2, 30, ...Array(30).fill(5), 60, 4, 3, 255, 2, 4])
  ],
  async run(bytes) {
    const script = new Script(bytes)
    const clock = new ManualClock(NOW_MS)
    const store = storeInMemory(clock)
    const components = { store, crypto: nodeCrypto, clock, logger: silentLogger }
    const clockGuard = await ClockGuard.open(components)
    const open = () => LevelAsleepQueue.open({ ...components, clockGuard }, { bounds: () => BOUNDS })
    let held = await open()
    for (let step = 0; step < 100 && !script.isOver; step++) {
      switch (script.below(5)) {
        case 0: {
          const principal = `p${script.below(3)}`
          const object = script.bytes(32)
          const input = { audience: A, principal, object, kind: 'opaque' as const, ttlMs: script.u8() * 500 }
          const answer = await refusedOrLater(() => held.enqueue(input))
          if (answer?.status !== 'queued') break
          const again = await refusedOrLater(() => held.enqueue(input))
          mustBe(again?.status === 'queued' && again.again && again.record.key === answer.record.key, 'the same deposit is the same record')
          break
        }
        case 1: {
          const [first] = await held.list(A, { limit: 1 })
          if (first !== undefined) mustBe(await held.drop(A, first.key), 'what is listed can be dropped')
          break
        }
        case 2:
          await held.sweep()
          break
        case 3:
          clock.advance(script.u8() * 500)
          break
        default: {
          const before = (await held.list(A)).map(({ key }) => key)
          held = await open()
          mustBe((await held.list(A)).map(({ key }) => key).join() === before.join(), 'what is listed survives a restart')
        }
      }
      const [list, usage] = [await held.list(A), await held.usage(A)]
      mustBe(list.length === usage.messages && list.length <= BOUNDS.messagesMax && usage.bytes <= BOUNDS.bytesMax, 'the bounds hold')
      for (const peer of ['p0', 'p1', 'p2']) {
        mustBe(list.filter(({ principal }) => principal === peer).length <= BOUNDS.messagesPerPeerMax, 'the bound of a peer holds')
      }
    }
    mustBe(held.damaged === 0, 'no row of our own is damaged')
    await store.close()
  }
}

export const targets: readonly FuzzTarget[] = [rows, queue]
