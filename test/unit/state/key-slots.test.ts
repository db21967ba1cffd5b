import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { toHex } from '../../../protocol/bytes.ts'
import { systemRandom } from '../../../src/platform/random.ts'
import { openKeySlots } from '../../../src/state/key-file-slots.ts'

describe('keys of ESEs on disk', () => {
  let dir = ''
  const path = () => join(dir, 'ese-keys')
  const open = () => openKeySlots(path(), systemRandom)
  const onDisk = (key: Uint8Array) => toHex(readFileSync(path())).includes(toHex(key))

  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'rookery-keys-'))
  })
  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  it('[G-47] a key is there after a restart until it is destroyed, and then nowhere in the file', () => {
    const keys = open()
    const { slot, key } = keys.take()
    keys.close()
    const again = open()
    again.sweep(new Set([slot]))
    expect(again.read(slot)).toEqual(key)
    expect(onDisk(key)).toBe(true)
    again.destroy(slot)
    expect(onDisk(key)).toBe(false)
    expect(again.read(slot)).not.toEqual(key)
    again.close()
  })

  it('no two slots in use share a key, also where slots are used again', () => {
    const keys = open()
    const seen = new Set<string>()
    const used: number[] = []
    for (let i = 0; i < 1_000; i++) {
      const { slot, key } = keys.take()
      expect(used).not.toContain(slot)
      expect(seen.has(toHex(key))).toBe(false)
      seen.add(toHex(key))
      used.push(slot)
      if (i % 3 === 0) keys.destroy(used.shift() as number)
      else if (i % 3 === 1) keys.release(used.shift() as number)
    }
    expect(statSync(path()).size).toBeLessThanOrEqual(1_024 * 32)
    keys.close()
  })

  it('[G-47] a start destroys the keys that nothing refers to any more', () => {
    const keys = open()
    const [kept, stray] = [keys.take(), keys.take()]
    keys.close()
    const again = open()
    again.sweep(new Set([kept.slot]))
    expect([onDisk(kept.key), onDisk(stray.key)]).toEqual([true, false])
    again.close()
  })

  it('a file that a crash cut within a key is read up to the last whole one; only its owner may read it', () => {
    const keys = open()
    const [{ slot }, other] = [keys.take(), keys.take()]
    keys.close()
    truncateSync(path(), statSync(path()).size - 5)
    const again = open()
    expect(statSync(path()).size % 32).toBe(0)
    expect(slot).toBe(15)
    expect(again.read(slot)).toBeUndefined()
    expect(again.read(other.slot)).toEqual(other.key)
    if (process.platform !== 'win32') expect(statSync(path()).mode & 0o777).toBe(0o600)
    again.close()
  })
})
