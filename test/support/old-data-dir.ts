import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { type Clock, systemClock } from '../../src/platform/clock.ts'

/** When the files of test/fixtures/first-schema.json.gz were written. */
const WRITTEN_AT_MS = Date.parse('2026-11-30T17:11:30Z')

/** The data directory as the first software with a stored schema left it: keys and texts are made up for it. */
export function firstSchemaDir(): { path: string; remove(): void } {
  const file = join(import.meta.dirname, '../fixtures/first-schema.json.gz')
  const files = JSON.parse(gunzipSync(readFileSync(file)).toString('utf8')) as Record<string, string>
  const path = mkdtempSync(join(tmpdir(), 'rookery-old-'))
  for (const [name, base64] of Object.entries(files)) {
    const at = join(path, name)
    mkdirSync(dirname(at), { recursive: true, mode: 0o700 })
    writeFileSync(at, Buffer.from(base64, 'base64'), { mode: 0o600 })
  }
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/** The time goes on where the old software stopped, so that nothing has ended that it kept. */
export function clockOfThen(afterMs: number): Clock {
  const startMs = systemClock.monotonicMs()
  return { ...systemClock, nowMs: () => Math.round(WRITTEN_AT_MS + afterMs + systemClock.monotonicMs() - startMs) }
}
