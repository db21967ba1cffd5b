import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { equals, fromHex, toHex } from '../bytes.ts'
import { nobleCrypto } from '../crypto/noble.ts'
import { ProtocolError } from '../errors.ts'
import { openRotation, signRotation } from '../identity/rotation.ts'
import { openPom, pomKey } from '../records/pom.ts'
import { openSetEntry } from '../records/set-entry.ts'

interface Row {
  id: string
  req: string
  note: string
  nowMs: number
  key: string
  hex: string
  decoded?: Record<string, unknown>
  error?: string
}

const rows = (name: string) => JSON.parse(readFileSync(join(import.meta.dirname, `../vectors/${name}.json`), 'utf8')) as Row[]

function outcome(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolError)
    return (error as ProtocolError).code
  }
}

const shown = (value: object) =>
  Object.fromEntries(Object.entries(value).map(([name, member]) => [name, member instanceof Uint8Array ? toHex(member) : member]))

describe.each([
  ['node', nodeCrypto],
  ['noble', nobleCrypto]
])('proofs of malfeasance, judged with %s', (_, crypto) => {
  it.each(rows('pom').map((row) => [`[${row.req}] ${row.id}: ${row.note}`, row] as const))('%s', (_title, row) => {
    const bytes = fromHex(row.hex)
    const got = outcome(
      () => openPom(crypto, bytes, { nowMs: row.nowMs, belongs: (p) => equals(pomKey(crypto, p.target), fromHex(row.key)) }).payload
    )
    if (row.error !== undefined) expect(got).toBe(row.error)
    else expect(shown(got as object)).toEqual(row.decoded)
    const entry = outcome(() => openSetEntry(crypto, 'poms', fromHex(row.key), bytes, row.nowMs).id)
    expect(entry).toBe(row.error ?? row.decoded?.accuser)
  })

  it.each(rows('rotation').map((row) => [`[${row.req}] ${row.id}: ${row.note}`, row] as const))('%s', (_title, row) => {
    const got = outcome(() => openRotation(crypto, fromHex(row.hex)))
    if (row.error !== undefined) expect(got).toBe(row.error)
    else expect(shown(got as object)).toEqual(row.decoded)
  })
})

it('[D-25] signs a certificate as the vectors have it, and none from a key to itself', () => {
  const signer = (n: number) => {
    const seed = new Uint8Array(32).fill(n)
    return { publicKey: nodeCrypto.ed25519.publicKey(seed), sign: (message: Uint8Array) => nodeCrypto.ed25519.sign(seed, message) }
  }
  const plain = rows('rotation').find(({ id }) => id === 'plain') as Row
  expect(toHex(signRotation(signer(1), signer(3), 1_800_000_000))).toBe(plain.hex)
  expect(() => signRotation(signer(1), signer(1), 0)).toThrow(TypeError)
})
