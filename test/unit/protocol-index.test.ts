import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

it('protocol/index.ts passes on every module of the protocol', () => {
  const root = join(import.meta.dirname, '../../protocol')
  const modules = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts') && file !== 'index.ts')
  const text = readFileSync(join(root, 'index.ts'), 'utf8')
  expect(modules.filter((file) => !text.includes(`export * from './${file}'`))).toEqual([])
})
