import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { fromHex, toHex } from '../bytes.ts'
import { nobleCrypto as crypto } from '../crypto/noble.ts'
import { decodeEseBatch, encodeEseBatch } from './batch.ts'
import type { JsonValue } from './json.ts'
import { EseMap } from './map.ts'

interface Vectors {
  steps: { title: string; batch: string; state: Record<string, { json?: JsonValue; blob?: string }>; hash: string }[]
  refused: { title: string; batch: string; code: string }[]
}

const vectors = JSON.parse(readFileSync(new URL('../vectors/ese-state.json', import.meta.url), 'utf8')) as Vectors

describe('[PSS-02] vectors of ESE batches and states', () => {
  it('each batch leads to the state and the hash beside it', () => {
    const map = new EseMap(crypto)
    for (const { title, batch, state, hash } of vectors.steps) {
      const decoded = decodeEseBatch(fromHex(batch))
      expect(toHex(encodeEseBatch(decoded)), title).toBe(batch)
      map.apply(decoded)
      const held = Object.fromEntries(
        [...map.keys()].map((key) => {
          const value = map.get(key)
          return [key, value instanceof Uint8Array ? { blob: toHex(value) } : { json: value }]
        })
      )
      expect(held, title).toEqual(state)
      expect(toHex(map.hash()), title).toBe(hash)
    }
  })

  it.each(vectors.refused)('$title is refused: $code', ({ batch, code }) => {
    expect(() => new EseMap(crypto).apply(decodeEseBatch(fromHex(batch)))).toThrow(expect.objectContaining({ code }))
  })
})
