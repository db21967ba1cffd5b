import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { faultySystem } from '../faults/faulty-system.ts'
import { runSystemFaults, SYSTEM_FAULTS, type SystemFault } from '../faults/system-run.ts'

/** `npm run faults -- --only system` goes through all of them, for longer. */
const IN_SHORT: readonly SystemFault[] = [
  'clock an hour back and right again',
  'stopped beyond the idle time of its connections',
  'no file descriptors',
  'threads of the solver die'
]

const library = faultySystem()
const hasPrlimit = (() => {
  try {
    execFileSync('prlimit', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()
const here = library === undefined || !hasPrlimit ? ' (not run: it needs Linux, a C compiler, `cc`, and `prlimit`)' : ''

describe('three nodes under load', () => {
  it(`[OD-22] [F062] [G-10] go through faults of the system one after the other: they say so, lose nothing, do nothing twice, and go on by themselves${here}`, async () => {
    if (library === undefined || !hasPrlimit) return expect(here).not.toBe('')
    const { faults, result } = await runSystemFaults({ kinds: IN_SHORT, length: 'short', seed: 1, library })
    expect(result.violations).toEqual([])
    expect(faults.map(({ kind }) => kind)).toEqual(IN_SHORT)
    expect(result.figures.items).toBeGreaterThan(0)
    expect(IN_SHORT.every((kind) => SYSTEM_FAULTS.includes(kind))).toBe(true)
  }, 900_000)
})
