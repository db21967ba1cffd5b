import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const VECTORS = join(ROOT, 'protocol/vectors')
const read = (folder: string) =>
  promisify(execFile)('python3', [join(ROOT, 'test/peers/reader.py'), folder], { timeout: 60_000 }).catch(
    (error: { stdout: string; code: number }) => error
  )

it('[spec] a reader in another language, written from protocol/README.md alone, comes to the verdict of every vector', async () => {
  const told = await read(VECTORS)
  expect(told.stdout.trimEnd().split('\n')).toEqual([
    expect.stringMatching(/^cbor: \d\d+ vectors$/),
    expect.stringMatching(/^eid: \d\d+ vectors$/),
    expect.stringMatching(/^locator: \d\d+ vectors$/),
    expect.stringMatching(/^pss-init: \d\d+ vectors$/),
    'all agree'
  ])
})

it('[spec] that reader notices a vector that is wrong', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'rookery-vectors-'))
  cpSync(VECTORS, folder, { recursive: true })
  const vectors = JSON.parse(readFileSync(join(folder, 'locator.json'), 'utf8')) as { hex: string; error?: string }[]
  const [first] = vectors
  if (first !== undefined) first.hex = `${first.hex.slice(0, -2)}00`
  writeFileSync(join(folder, 'locator.json'), JSON.stringify(vectors))
  const told = await read(folder)
  expect(told).toMatchObject({ code: 1, stdout: expect.stringContaining('refused as SIGNATURE_INVALID') })
  rmSync(folder, { recursive: true, force: true })
})
