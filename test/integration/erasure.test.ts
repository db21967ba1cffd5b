import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

/** Every file of the folder that holds the text; heap snapshots apart. */
function holding(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => !file.endsWith('.heapsnapshot') && statSync(join(folder, file)).isFile())
    .filter((file) => readFileSync(join(folder, file)).includes(text))
}

const inHeap = (folder: string, name: string, text: string) => readFileSync(join(folder, `${name}.heapsnapshot`)).includes(text)

const MARKERS = ['key', 'value', 'merged', 'blob'].map((side) => ['MARK', side, 'ER', 'xxx'].join('-'))

describe('state that was erased', () => {
  it.each(['close', 'rotate'] as const)(
    '[ESE-01] [ESE-04] [ESE-05] [G-47] is nowhere in the data directories, at no time, and no longer in the heap (%s)',
    async (how) => {
      const folder = mkdtempSync(join(tmpdir(), 'rookery-erasure-'))
      const child = fork(join(import.meta.dirname, 'erasure-process.ts'), [folder, how], { execArgv: ['--expose-gc'] })
      const step = async () => {
        const [message] = (await Promise.race([
          once(child, 'message'),
          once(child, 'exit').then(([code]) => Promise.reject(new Error(`the process ended with ${code}`)))
        ])) as [{ step: string }]
        return message.step
      }
      try {
        expect(await step()).toBe('written')
        for (const marker of MARKERS) expect(holding(folder, marker)).toEqual([])
        expect(inHeap(folder, 'before', MARKERS[0] as string), 'the search finds what is there').toBe(true)
        child.send('go on')
        expect(await step()).toBe('erased')
        for (const marker of MARKERS) expect(holding(folder, marker)).toEqual([])
        child.send('go on')
        expect(await step()).toBe('searched')
        for (const marker of MARKERS) expect(inHeap(folder, 'after', marker), marker).toBe(false)
        const over = once(child, 'exit')
        child.send('go on')
        await over
        for (const marker of MARKERS) expect(holding(folder, marker)).toEqual([])
      } finally {
        child.kill('SIGKILL')
        rmSync(folder, { recursive: true, force: true })
      }
    },
    60_000
  )
})
