import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { fromHex, toHex } from './bytes.ts'
import { type CborValue, decodeCbor, encodeCbor } from './cbor.ts'
import { ProtocolError } from './errors.ts'

interface Vector {
  id: string
  note: string
  hex: string
  /** byte strings as `{"$bytes": hex}` */
  decoded?: unknown
  error?: string
}

const vectors = JSON.parse(readFileSync(new URL('./vectors/cbor.json', import.meta.url), 'utf8')) as Vector[]

function plain(value: CborValue): unknown {
  if (value instanceof Uint8Array) return { $bytes: toHex(value) }
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, plain(member)]))
  return value
}

describe('[D-30] CBOR vectors', () => {
  it.each(vectors.filter((one) => one.error === undefined))('$id reads and writes $note', ({ hex, decoded }) => {
    const value = decodeCbor(fromHex(hex))
    expect(plain(value)).toEqual(decoded)
    expect(toHex(encodeCbor(value))).toBe(hex)
  })

  it.each(vectors.filter((one) => one.error !== undefined))('$id refuses $note', ({ hex, error }) => {
    let thrown: unknown
    try {
      decodeCbor(fromHex(hex))
    } catch (err) {
      thrown = err
    }
    expect(thrown).toBeInstanceOf(ProtocolError)
    expect((thrown as ProtocolError).code).toBe(error)
  })
})
