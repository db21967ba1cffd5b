import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { deprecated } from '../../src/platform/deprecation.ts'

it('[semver] a deprecation warns once in a process, by its code and with what to use instead', async () => {
  const warnings: Error[] = []
  const hear = (warning: Error) => void warnings.push(warning)
  process.on('warning', hear)
  const first = once(process, 'warning')
  deprecated('ROOKERY_DEP9999', 'old() goes: use new()')
  deprecated('ROOKERY_DEP9999', 'old() goes: use new()')
  await first
  deprecated('ROOKERY_DEP9998', 'another')
  await once(process, 'warning')
  process.off('warning', hear)
  expect(warnings).toMatchObject([
    { name: 'DeprecationWarning', code: 'ROOKERY_DEP9999', message: 'old() goes: use new()' },
    { name: 'DeprecationWarning', code: 'ROOKERY_DEP9998' }
  ])
})

it('[semver] tells in docs/semver.md where its codes are listed', () => {
  const text = readFileSync(join(import.meta.dirname, '../../docs/semver.md'), 'utf8')
  expect(text).toContain('ROOKERY_DEP0001')
  expect(text).toContain('process.emitWarning')
})
