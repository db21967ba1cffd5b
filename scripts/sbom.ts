/** Lists what the package brings along, as CycloneDX 1.5, from the lock file alone: `npm run sbom` writes sbom.cdx.json. The same lock gives the same file. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')

export interface Component {
  name: string
  version: string
  purl: string
  hashes?: { alg: string; content: string }[]
  licenses?: { license?: { id?: string; name?: string }; expression?: string }[]
}

export interface Sbom {
  bomFormat: 'CycloneDX'
  specVersion: string
  serialNumber: string
  metadata: { timestamp?: string; component: Component & { 'bom-ref': string } }
  components: Component[]
  dependencies: { ref: string; dependsOn?: string[] }[]
}

/** Licences that go with ours, as SPDX identifiers. */
export const LICENCES_ALLOWED: ReadonlySet<string> = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'CC0-1.0',
  'ISC',
  'MIT',
  'Python-2.0',
  'Unlicense'
])

/** The licence of a component as one SPDX expression; empty where the lock file does not tell. */
export function licenceOf({ licenses = [] }: Component): string {
  return licenses.map(({ license, expression }) => expression ?? license?.id ?? license?.name ?? '').join(' AND ')
}

/** Whether somebody may choose or must keep allowed licences alone. */
export function isAllowed(expression: string): boolean {
  const words = expression.replaceAll(/[()]/g, '')
  return words.split(' OR ').some((choice) => choice.split(' AND ').every((one) => LICENCES_ALLOWED.has(one.trim())))
}

interface Lock {
  packages: Record<string, { name?: string; version?: string; dev?: boolean; devOptional?: boolean; link?: boolean }>
}

/** `name@version` of all that the lock file installs for users of the package. */
export function installedRefs(): Set<string> {
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as Lock
  const refs = Object.entries(lock.packages).flatMap(([path, { name, version, dev, devOptional, link }]) =>
    path === '' || dev === true || devOptional === true || link === true ? [] : [`${name ?? path.split('node_modules/').at(-1)}@${version}`]
  )
  return new Set(refs)
}

export function sbom(): Sbom {
  const argv = ['sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--package-lock-only']
  const all = JSON.parse(execFileSync('npm', argv, { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 * 2 ** 20 })) as Sbom
  // npm's own --omit=dev also leaves out what users and developers both need
  const installed = installedRefs()
  const kept = (ref: string) => ref === all.metadata.component['bom-ref'] || installed.has(ref)
  const made: Sbom = {
    ...all,
    components: all.components.filter(({ name, version }) => installed.has(`${name}@${version}`)),
    dependencies: all.dependencies
      .filter(({ ref }) => kept(ref))
      .map((one) => ({ ...one, ...(one.dependsOn === undefined ? {} : { dependsOn: one.dependsOn.filter(kept) }) }))
  }
  const { name, version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { name: string; version: string }
  const { component } = made.metadata
  const ref = `${name}@${version}`
  // npm names the root after its folder, and draws a serial number and the time
  const dependencies = made.dependencies.map((one) => (one.ref === component['bom-ref'] ? { ...one, ref } : one))
  const metadata = { ...made.metadata, component: { ...component, 'bom-ref': ref, name, version, purl: `pkg:npm/${name}@${version}` } }
  delete metadata.timestamp
  const digest = createHash('sha256')
    .update(JSON.stringify([metadata, made.components, dependencies]))
    .digest('hex')
  const uuid = `${digest.slice(0, 8)}-${digest.slice(8, 12)}-8${digest.slice(13, 16)}-8${digest.slice(17, 20)}-${digest.slice(20, 32)}`
  return { ...made, serialNumber: `urn:uuid:${uuid}`, metadata, dependencies }
}

if (import.meta.main) {
  const file = join(ROOT, 'sbom.cdx.json')
  const text = `${JSON.stringify(sbom(), null, 2)}\n`
  writeFileSync(file, text)
  process.stdout.write(`written ${file}\n`)
}
