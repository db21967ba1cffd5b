import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { installedRefs, isAllowed, licenceOf, sbom } from '../../scripts/sbom.ts'

const lock = JSON.parse(readFileSync(join(import.meta.dirname, '../../package-lock.json'), 'utf8')) as {
  packages: Record<string, { dev?: boolean; devOptional?: boolean; license?: string; os?: string[] }>
}

describe('the list of what the package brings along', () => {
  const made = sbom()

  it('is CycloneDX, names this package, and gives each component with version, purl and hash; it is the same each time', () => {
    expect(made).toMatchObject({
      bomFormat: 'CycloneDX',
      specVersion: '1.5',
      metadata: { component: { name: 'rookery', purl: /^pkg:npm\/rookery@/ } }
    })
    expect(made.serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(made.components.length).toBeGreaterThan(50)
    for (const { name, version, purl } of made.components) expect(purl, name).toBe(`pkg:npm/${name.replace('@', '%40')}@${version}`)
    const refs = new Set([...made.components.map(({ name, version }) => `${name}@${version}`), made.metadata.component['bom-ref']])
    expect(made.dependencies.filter(({ ref }) => !refs.has(ref))).toEqual([])
    expect(sbom()).toEqual(made)
  })

  it('has everything that the lock file installs for users, and nothing for developers', () => {
    const refs = new Set(made.components.map(({ name, version }) => `${name}@${version}`))
    expect([...installedRefs()].filter((ref) => !refs.has(ref))).toEqual([])
    const names = new Set(made.components.map(({ name }) => name))
    for (const name of ['libp2p', 'yaml', 'once', 'classic-level']) expect(names.has(name), name).toBe(true)
    for (const name of ['vitest', 'typescript', 'publint']) expect(names.has(name)).toBe(false)
  })

  it('has licences that go with ours alone', () => {
    // of packages for other platforms the lock file tells no licence: theirs is that of the one for this platform
    const platform = new Set(
      Object.entries(lock.packages).flatMap(([path, { os, license }]) =>
        os && license === undefined ? [path.split('node_modules/').at(-1)] : []
      )
    )
    const refused = made.components.filter((one) => !(licenceOf(one) === '' ? platform.has(one.name) : isAllowed(licenceOf(one))))
    expect(refused.map((one) => `${one.name}: ${licenceOf(one)}`)).toEqual([])
    expect([isAllowed('MIT OR GPL-3.0-only'), isAllowed('MIT AND GPL-3.0-only'), isAllowed('GPL-3.0-only')]).toEqual([true, false, false])
  })
})
