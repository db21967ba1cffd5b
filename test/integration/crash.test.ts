import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Level } from 'level'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { jsonCodec, Store } from '../../src/store/store.ts'
import { Direction, type Fact } from '../soak/crash-facts.ts'
import { type CrashResult, CYCLE_KINDS, runCrash } from '../soak/crash-run.ts'
import { type BatchOp, type Fault, FaultyLevel } from '../support/faulty-level.ts'

const CYCLES = 10
/** Takes each kind of cycle once. */
const SEED = 2_110
const RUN_MS_MAX = 240_000

describe(`two nodes with durable traffic both ways, through ${CYCLES} crashes`, () => {
  let result: CrashResult
  beforeAll(async () => {
    result = await runCrash({ cycles: CYCLES, seed: SEED })
  }, RUN_MS_MAX)

  it('[PSS-07] loses nothing that was acknowledged, applies nothing twice, keeps each channel’s order, and signs no two conflicting checkpoints', () => {
    const failed = result.cycles.filter(({ violations }) => violations.length > 0)
    expect(failed, `replay: npm run crash -- --seed ${failed[0]?.seed} --cycles 1`).toEqual([])
    expect(result.cycles.map(({ kind }) => kind)).toEqual([...CYCLE_KINDS])
    expect(result.acked).toBeGreaterThan(500)
  })

  it('[PSS-07] [D-16] takes the same session up again after every crash; only what a backup lacks costs it, and both sides are told', () => {
    for (const { kind, session } of result.cycles) {
      if (kind === 'restored backup, both had gone on') expect(session).toBe('another')
      else if (kind !== 'disk error') expect(session, kind).toBe('resumed')
    }
    expect(result.restores).toBe(2)
  })

  it('[D-21] finds sessions, journals and effects after SIGKILLs, some of them from inside a LevelDB write', () => {
    expect(result.kills).toBeGreaterThanOrEqual(CYCLES)
    expect(result.deathsInWrites).toBeGreaterThan(0)
  })
})

describe('what the crash harness calls a violation', () => {
  const issue = (direction: Direction, ...ks: number[]) => {
    for (const k of ks) direction.take({ fact: 'issued', channel: 1, k })
  }
  const rows = (...ks: number[]) => [{ channel: 1, count: ks.length, lastK: Math.max(0, ...ks), ks }]
  const judged = (facts: Fact[], ...ks: number[]) => {
    const direction = new Direction('a to b')
    issue(direction, 1, 2, 3)
    for (const fact of facts) direction.take(fact)
    return direction.judge(rows(...ks))
  }

  it.each<[string, Fact[], number[], string | undefined]>([
    ['all of it there, once and in order', [{ fact: 'acked', channel: 1, k: 3 }], [1, 2, 3], undefined],
    ['a gap where the process died before its journal', [{ fact: 'acked', channel: 1, k: 3 }], [1, 3], undefined],
    ['an acknowledged item that is not there', [{ fact: 'acked', channel: 1, k: 2 }], [1, 3], 'item 2 was acknowledged and is not there'],
    ['an item that is there twice', [], [1, 2, 2], 'item 2 was applied twice'],
    ['an item behind a later one', [], [2, 1], 'item 1 was applied after item 2'],
    ['an item that nobody sent', [], [4], 'item 4 was applied and never issued'],
    ['a journaled item that is gone without a word', [{ fact: 'journaled', channel: 1, k: 2 }], [1, 3], 'nobody was told'],
    [
      'a journaled item that was returned as unknown',
      [
        { fact: 'journaled', channel: 1, k: 2 },
        { fact: 'returned', channel: 1, k: 2, sent: true }
      ],
      [1, 3],
      undefined
    ],
    [
      'an item that is there and was said to have never left',
      [{ fact: 'failed', channel: 1, k: 2, code: 'SESSION_LOST', outcome: 'not-sent' }],
      [1, 2],
      'told that it never left'
    ]
  ])('[PSS-07] judges %s', (_, facts, ks, violation) => {
    const violations = judged(facts, ...ks)
    if (violation === undefined) expect(violations).toEqual([])
    else expect(violations).toEqual([expect.stringContaining(violation)])
  })

  it('[PSS-07] remembers where it stopped: what was judged once is not taken again, and the counter must agree with the log', () => {
    const direction = new Direction('a to b')
    issue(direction, 1, 2, 3)
    expect(direction.judge(rows(1, 2))).toEqual([])
    expect(direction.judge([{ channel: 1, count: 3, lastK: 2, ks: [2] }])).toEqual([expect.stringContaining('item 2 was applied twice')])
    expect(direction.judge([{ channel: 1, count: 5, lastK: 3, ks: [3] }])).toEqual([expect.stringContaining('the counter says 5')])
  })
})

describe('a LevelDB write that goes wrong', () => {
  const directories: string[] = []
  afterEach(() => {
    for (const made of directories.splice(0)) rmSync(made, { recursive: true, force: true })
  })

  async function open(directory: string) {
    const level = new Level<string, Uint8Array>(directory, { valueEncoding: 'view' })
    await level.open()
    const written: BatchOp[][] = []
    const die = (): never => {
      throw new Error('the process died')
    }
    const disk = new FaultyLevel(level, { directory, die, written: (ops) => void written.push(ops) })
    const store = new Store(level)
    return { disk, store, written, table: store.table<number>('rows', jsonCodec<number>()) }
  }

  function fault(how: Fault['how'], more: Partial<Fault> = {}): Fault {
    return { how, at: 2, table: 'rows', tail: 'cut', written: false, lasts: 'once', seed: 1, ...more }
  }

  /** Two rows by themselves, then two in one batch that meets the fault. @returns the rows after opening again */
  async function rowsAfter(one: Fault): Promise<number[]> {
    const directory = mkdtempSync(join(tmpdir(), 'rookery-faulty-'))
    directories.push(directory)
    const { disk, store, table } = await open(directory)
    disk.arm(one)
    await store.commit([table.put('1', 1)])
    await expect(store.commit([table.put('2', 2), table.put('3', 3)])).rejects.toMatchObject({ code: 'STORE_WRITE_FAILED' })
    await store.close()
    const again = await open(directory)
    const rows: number[] = []
    for await (const [, row] of again.table.entries()) rows.push(row)
    await again.store.close()
    return rows
  }

  it('[D-21] is not there when the process died before it, and whole when it died after it', async () => {
    expect(await rowsAfter(fault('before'))).toEqual([1])
    expect(await rowsAfter(fault('after'))).toEqual([1, 2, 3])
  })

  it('[D-21] is there whole or not at all when it was torn, whatever stands in its place, and the directory opens without repair', async () => {
    for (const tail of ['cut', 'zeros', 'noise'] as const) {
      for (let seed = 0; seed < 5; seed++) expect([[1], [1, 2, 3]]).toContainEqual(await rowsAfter(fault('torn', { tail, seed })))
    }
  })

  it('[D-21] is told to whoever waits when the disk refuses it; after a failing fsync it may be there all the same, and nothing follows', async () => {
    expect(await rowsAfter(fault('error'))).toEqual([1])
    expect(await rowsAfter(fault('error', { written: true, lasts: 'until reopened' }))).toEqual([1, 2, 3])
    const directory = mkdtempSync(join(tmpdir(), 'rookery-faulty-'))
    directories.push(directory)
    const { disk, store, table, written } = await open(directory)
    disk.arm(fault('error', { at: 1, lasts: 'until reopened' }))
    await expect(store.commit([table.put('1', 1)])).rejects.toThrow()
    await expect(store.commit([table.put('2', 2)])).rejects.toThrow()
    expect(written).toEqual([])
    await store.close()
  })
})
