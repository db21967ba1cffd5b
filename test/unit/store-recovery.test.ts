import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Level } from 'level'
import { afterEach, describe, expect, it } from 'vitest'
import { utf8 } from '../../protocol/bytes.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { DiskRoom, type DiskSpace, reserveOf } from '../../src/store/disk-room.ts'
import { bytesCodec, Store, type WriteOp } from '../../src/store/store.ts'

const MIB = 1_048_576
const cleanups: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** A LevelDB on disk that, once it failed, takes nothing until it is opened anew, as the real one does. */
async function brittle({ clock = new ManualClock(), room }: { clock?: ManualClock; room?: DiskRoom } = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'rookery-store-'))
  const level = new Level<string, Uint8Array>(dir, { keyEncoding: 'utf8', valueEncoding: 'view' })
  await level.open()
  const faults = { next: false, open: 0, survives: false, opens: 0 }
  let poisoned = false
  let failed: unknown[] = []
  const batch = level.batch.bind(level) as unknown as (ops: unknown[], options: unknown) => Promise<void>
  level.batch = (async (ops: unknown[], options: unknown) => {
    if (faults.next || poisoned) {
      faults.next = false
      if (!poisoned) failed = ops
      poisoned = true
      throw new Error('IO error: No space left on device')
    }
    await batch(ops, options)
  }) as never
  const open = level.open.bind(level)
  level.open = (async (options?: { passive?: boolean }) => {
    // A sublevel waits so for its database.
    if (options?.passive === true) return await open(options)
    faults.opens++
    if (faults.open > 0) {
      faults.open--
      throw Object.assign(new Error('Database failed to open'), { code: 'LEVEL_DATABASE_NOT_OPEN' })
    }
    await open()
    poisoned = false
    // The log of a batch whose sync failed may be read all the same.
    if (faults.survives) await batch(failed, {})
  }) as never
  const store = new Store(level, { clock, ...(room === undefined ? {} : { room }) })
  cleanups.push(async () => {
    await store.close()
    rmSync(dir, { recursive: true, force: true })
  })
  return { store, clock, faults, table: store.table('things', bytesCodec) }
}

const text = (bytes: Uint8Array | undefined) => (bytes === undefined ? undefined : new TextDecoder().decode(bytes))

describe('a store whose disk refused a write', () => {
  it('[F065] [OD-22] opens the database anew at the next write and goes on, with all that was there', async () => {
    const { store, faults, table } = await brittle()
    await store.commit([table.put('a', utf8('1'))])
    faults.next = true
    await expect(store.commit([table.put('b', utf8('2'))])).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED', kind: 'storage' })
    expect(text(await table.get('a'))).toBe('1')
    expect(await store.state()).toMatchObject({ state: 'ok' })
    await store.commit([table.put('c', utf8('3'))])
    expect(store.reopened).toBe(1)
    expect([text(await table.get('a')), text(await table.get('b')), text(await table.get('c'))]).toEqual(['1', undefined, '3'])
  })

  it('[OD-22] [OD-48] takes back a batch that failed and is found in the log all the same: values, new keys and deletions', async () => {
    const { store, faults, table } = await brittle()
    await store.commit([table.put('kept', utf8('old')), table.put('gone', utf8('was'))])
    faults.next = true
    faults.survives = true
    const failed: WriteOp[] = [table.put('kept', utf8('new')), table.put('fresh', utf8('x')), table.del('gone')]
    await expect(store.commit(failed)).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
    await store.commit([table.put('next', utf8('y'))])
    expect(await Promise.all(['kept', 'fresh', 'gone', 'next'].map(async (key) => text(await table.get(key))))).toEqual([
      'old',
      undefined,
      'was',
      'y'
    ])
  })

  it('[F065] fails at once between its tries, which grow apart, and tells its state', async () => {
    const { store, faults, table, clock } = await brittle()
    faults.next = true
    await expect(store.commit([table.put('a', utf8('1'))])).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
    faults.open = 3
    const again = () => store.commit([table.put('a', utf8('1'))])
    for (const [waitMs, opens] of [
      [0, 1],
      [249, 1],
      [1, 2],
      [499, 2],
      [1, 3]
    ] as const) {
      clock.advance(waitMs)
      await expect(again()).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
      expect(faults.opens).toBe(opens)
    }
    expect(await store.state()).toMatchObject({
      state: 'down',
      reason: expect.stringContaining('failed to open'),
      sinceMs: clock.nowMs() - 750
    })
    await expect(table.get('a')).rejects.toMatchObject({ code: 'STORE_DOWN', kind: 'storage' })
    clock.advance(1_000)
    expect(await store.state()).toMatchObject({ state: 'ok' })
    await again()
    expect(text(await table.get('a'))).toBe('1')
  })

  it('[OD-37] goes on with a scan that was under way, without a gap and without a repeat', async () => {
    const { store, faults, table } = await brittle()
    const keys = Array.from({ length: 300 }, (_, i) => String(i).padStart(3, '0'))
    await store.commit(keys.map((key) => table.put(key, utf8(key))))
    for (const reverse of [false, true]) {
      const seen: string[] = []
      for await (const [key] of table.entries({ limit: 250, reverse })) {
        seen.push(key)
        if (seen.length !== 100) continue
        faults.next = true
        await store.commit([table.put('x', utf8('x'))]).catch(() => undefined)
        await store.state()
      }
      expect(seen).toEqual((reverse ? [...keys].reverse() : keys).slice(0, 250))
    }
    expect(store.reopened).toBe(2)
  })
})

describe('room on the volume', () => {
  it('keeps 5 %, 16 to 64 MiB, a quarter of a small volume', () => {
    expect([8, 16, 100, 1_000, 100_000].map((mib) => reserveOf(mib * MIB) / MIB)).toEqual([2, 4, 16, 50, 64])
  })

  it('[F070] [OD-22] refuses what is new before the volume is full, lets deletions and the owner’s acts through, and takes again by itself', async () => {
    const clock = new ManualClock()
    let space: DiskSpace = { freeBytes: 1_000 * MIB, totalBytes: 1_000 * MIB }
    const room = new DiskRoom(async () => space, { clock, reserveBytes: 10 * MIB })
    const { store, table } = await brittle({ clock, room })
    const put = (key: string) => table.put(key, new Uint8Array(MIB))
    await store.commit([put('a')])
    space = { ...space, freeBytes: 12 * MIB }
    clock.advance(1_000)
    await expect(store.commit([put('b')])).rejects.toMatchObject({
      code: 'STORE_FULL',
      kind: 'storage',
      remedy: expect.stringContaining('free space')
    })
    await store.commit([table.put('small', utf8('x'))])
    space = { ...space, freeBytes: 10 * MIB - 1 }
    clock.advance(1_000)
    expect(await store.state()).toMatchObject({ state: 'full', freeBytes: 10 * MIB - 1, reserveBytes: 10 * MIB })
    await store.commit([table.del('a'), table.put('moved', utf8('x'))])
    await store.commit([table.put('asleep', utf8('x'))], { room: 'reserve' })
    space = { ...space, freeBytes: 100 * MIB }
    clock.advance(1_000)
    await store.commit([put('b')])
    expect(await store.state()).toMatchObject({ state: 'ok' })
    expect(store.reopened).toBe(0)
  })

  it('[F070] counts what it wrote between two looks, so that a burst does not run into the end of the disk, and looks before it refuses', async () => {
    const clock = new ManualClock()
    let looks = 0
    const room = new DiskRoom(async () => ({ freeBytes: (looks++ < 2 ? 30 : 12) * MIB, totalBytes: 100 * MIB }), {
      clock,
      reserveBytes: 10 * MIB
    })
    const { store, table } = await brittle({ clock, room })
    const looksAt: (number | string)[] = []
    for (let i = 0; i < 14; i++) {
      looksAt.push(
        await store.commit([table.put(`k${i}`, new Uint8Array(MIB))]).then(
          () => looks,
          (error) => error.code
        )
      )
    }
    expect(looksAt).toEqual([1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 'STORE_FULL', 'STORE_FULL'])
  })
})
