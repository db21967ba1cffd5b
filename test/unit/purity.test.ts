import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../../protocol/', import.meta.url))
const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))

const PACKAGES = /^(uint8arrays|multiformats|@noble\/(ed25519|curves|hashes|ciphers)|@hpke\/(core|common|dhkem-x25519))(\/|$)/
/** A field may be called 'from' or 'import': what stands in quotes itself leads in no specifier, and a specifier holds no space. */
const IMPORT = /(?:(?<!['"`])\bfrom\s*|(?<!['"`])\bimport\s*\(?\s*)['"]([^'"\s]+)['"]/g
const CALLS: [string, RegExp][] = [
  ['the clock', /\bDate\s*(\.|\()|\bnew Date\b|\bperformance\s*\./],
  ['timers', /\b(setTimeout|setInterval|setImmediate|queueMicrotask)\s*\(/],
  ['randomness', /\bMath\.random\b|\bgetRandomValues\b|\brandomBytes\b|\brandomSecretKey\b|\brandomUUID\b|\bkeygen\b/],
  ['the platform', /\b(process|globalThis|Buffer|console|fetch|require)\s*[.(]/]
]

/** Source without comments and text: a sentence may say `Date.now`, code may not. */
function code(source: string): string {
  return source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|[^:'"`])\/\/.*$/gm, '$1')
}

/** What makes a source of protocol/ impure, in words. */
function impurities(source: string): string[] {
  const bare = code(source)
  const imports = [...bare.matchAll(IMPORT)].map((match) => match[1] as string)
  const foreign = imports.filter((name) => (name.startsWith('.') ? /(^|\/)(src|sim|test|bench)\//.test(name) : !PACKAGES.test(name)))
  return [
    ...foreign.map((name) => `imports ${name}`),
    ...CALLS.filter(([, pattern]) => pattern.test(bare)).map(([what]) => `reaches for ${what}`)
  ]
}

describe('protocol/', () => {
  it('holds the sources that this test believes it scans', () => {
    expect(files.length).toBeGreaterThan(15)
    expect(files).toContain('bytes.ts')
    expect(files.some((name) => name.includes('records'))).toBe(true)
  })

  it.each(files)('[D-17] stands alone, without platform, clock or randomness: %s', (name) => {
    expect(impurities(readFileSync(`${root}/${name}`, 'utf8'))).toEqual([])
  })
})

it.each([
  ["import { readFileSync } from 'node:fs'", 'imports node:fs'],
  ["import fs from 'fs'", 'imports fs'],
  ["import { x } from '../../src/errors.ts'", 'imports ../../src/errors.ts'],
  ["import type { PeerId } from '@libp2p/interface'", 'imports @libp2p/interface'],
  ["export { y } from 'level'", 'imports level'],
  ["const m = await import('node:crypto')", 'imports node:crypto'],
  ["import 'libp2p'", 'imports libp2p'],
  ['const now = Date.now()', 'reaches for the clock'],
  ['const now = new Date()', 'reaches for the clock'],
  ['performance.now()', 'reaches for the clock'],
  ['setTimeout(() => {}, 5)', 'reaches for timers'],
  ['Math.random()', 'reaches for randomness'],
  ['crypto.getRandomValues(bytes)', 'reaches for randomness'],
  ['Buffer.from(x)', 'reaches for the platform'],
  ['console.log(x)', 'reaches for the platform']
])('the scan sees what it must not see: %s', (source, found) => {
  expect(impurities(source)).toContain(found)
})

it('the scan lets comments speak of what code may not do', () => {
  expect(impurities('/** never Date.now() */\nconst a = 1 // not Math.random() either')).toEqual([])
})
