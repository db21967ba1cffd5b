import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DISK_CYCLE_KINDS, DiskRun } from '../faults/disk-run.ts'
import { faultyFs } from '../faults/faulty-disk.ts'

/** `npm run faults` goes through all of them, as often as one likes. */
const IN_SHORT = ['power cut', 'one sync fails', 'a write is torn', 'syncs that lied'] as const

const library = faultyFs()
const here = library === undefined ? ' (not run: it needs Linux and a C compiler, `cc`)' : ''

describe('a node on a disk that fails under it', () => {
  let run: DiskRun | undefined
  beforeAll(async () => {
    if (library === undefined) return
    run = new DiskRun(library)
    await run.open()
  }, 120_000)
  afterAll(() => run?.close())

  it.each(IN_SHORT)(
    `[OD-22] [OD-41] [F062] [F065] %s: loses nothing that it acknowledged, says what is wrong, and goes on by itself${here}`,
    async (kind) => {
      if (run === undefined) return expect(library).toBeUndefined()
      const cycle = await run.cycle(DISK_CYCLE_KINDS.indexOf(kind))
      expect(cycle.violations).toEqual([])
      expect(cycle.acknowledged).toBeGreaterThan(0)
      if (kind === 'one sync fails' || kind === 'a write is torn')
        expect(cycle).toMatchObject({ failures: expect.any(Number), refused: expect.any(Number) })
      if (kind === 'syncs that lied') expect(cycle.lostBytes).toBeGreaterThan(0)
    },
    400_000
  )
})
