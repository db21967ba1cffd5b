import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { told, verdictOf } from '../../scripts/audit.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => JSON.parse(readFileSync(join(ROOT, path), 'utf8'))

type Specs = Record<string, string>
interface Locked {
  version?: string
  integrity?: string
  resolved?: string
  link?: boolean
  hasInstallScript?: boolean
  os?: string[]
  optional?: boolean
  dependencies?: Specs
  optionalDependencies?: Specs
  peerDependencies?: Specs
  devDependencies?: Specs
}
interface Manifest {
  scripts?: Specs
  dependencies: Specs
  devDependencies: Specs
  peerDependencies: Specs
}

const manifest = read('package.json') as Manifest
const lock = (read('package-lock.json') as { packages: Record<string, Locked> }).packages
const installed = Object.entries(lock).filter(([path]) => path.startsWith('node_modules/'))

/** What stands in for a package that would bring much along: a folder of ours, and never of use to users. */
const STAND_IN = 'node_modules/react-native-webrtc'
/** Whoever runs code of its own as it is installed: a new one is a decision. */
const WITH_INSTALL_SCRIPTS = {
  'node_modules/classic-level': 'LevelDB: takes the build that comes with it, or compiles',
  'node_modules/esbuild': 'developers only: checks its own program',
  'node_modules/node': 'brings the Node that this package runs on where the machine has an older one'
}
/** Native builds for other platforms than the one that the lock was made on, whose hashes its registry does not carry. */
const WITHOUT_HASH = /^node_modules\/(@chainsafe\/libp2p-quic|@number0\/iroh)-[a-z0-9-]+$/
const INSTALL_SCRIPTS = ['preinstall', 'install', 'postinstall', 'prepare', 'preprepare', 'postprepare', 'prepublish'] as const

describe('the lock file', () => {
  it('has a SHA-512 for each package, but for native builds of other platforms, which are named', () => {
    const without = installed.filter(
      ([path, { integrity, link }]) => link !== true && !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? '') && path !== STAND_IN
    )
    for (const [path, { os, optional }] of without) {
      expect([path, WITHOUT_HASH.test(path), optional, os?.length]).toEqual([path, true, true, 1])
      expect([path, existsSync(join(ROOT, path))]).toEqual([path, false])
    }
    expect(installed.length).toBeGreaterThan(500)
    expect(without.length).toBeLessThanOrEqual(14)
  })

  it('names no host, no repository and no archive: every package comes from the registry that npm is set to', () => {
    for (const [path, { resolved, link }] of installed) {
      if (path === STAND_IN) expect([resolved, link]).toEqual(['packaging/no-react-native', true])
      else expect([path, resolved, link]).toEqual([path, undefined, undefined])
    }
    for (const [path, entry] of Object.entries(lock)) {
      const specs = [entry.dependencies, entry.optionalDependencies, entry.peerDependencies, entry.devDependencies].flatMap((one) =>
        Object.entries(one ?? {})
      )
      const elsewhere = specs.filter(
        ([name, spec]) =>
          /^(git|https?|ssh|file|link|github|gitlab|bitbucket):|^git\+|^[\w-]+\/[\w.-]+(#|$)/.test(spec) && name !== 'react-native-webrtc'
      )
      expect([path, elsewhere]).toEqual([path, []])
    }
  })

  it('is of exact versions, and of the ones that package.json names', () => {
    for (const [name, spec] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
      if (name === 'react-native-webrtc') continue
      expect([name, spec]).toEqual([name, expect.stringMatching(/^\d+\.\d+\.\d+(-[\w.]+)?$/)])
      expect([name, lock[`node_modules/${name}`]?.version]).toEqual([name, spec])
    }
  })
})

describe('code that runs as packages are installed', () => {
  it('is none of ours', () => {
    const own = Object.keys(manifest.scripts ?? {}).filter((name) => INSTALL_SCRIPTS.some((one) => one === name))
    expect(own).toEqual([])
    expect(existsSync(join(ROOT, 'binding.gyp'))).toBe(false)
    const standIn = read('packaging/no-react-native/package.json') as Manifest
    expect(standIn.scripts).toBeUndefined()
  })

  it('is that of three named packages, by the lock file and by what lies installed', () => {
    const flagged = installed.filter(([, { hasInstallScript }]) => hasInstallScript === true).map(([path]) => path)
    expect(flagged.sort()).toEqual(Object.keys(WITH_INSTALL_SCRIPTS).sort())
    const found = installed.filter(([path]) => {
      const file = join(ROOT, path, 'package.json')
      if (!existsSync(file)) return false
      const { scripts = {} } = JSON.parse(readFileSync(file, 'utf8')) as Manifest
      return ['preinstall', 'install', 'postinstall'].some((name) => name in scripts) || existsSync(join(ROOT, path, 'binding.gyp'))
    })
    expect(found.map(([path]) => path).filter((path) => !flagged.includes(path))).toEqual([])
  })
})

describe('npm run audit', () => {
  const report = (vulnerabilities: object) => JSON.stringify({ vulnerabilities, metadata: { dependencies: { prod: 214 } } })

  it('tells known faults by package and words, and ends with 1', () => {
    const given = report({
      left: { name: 'left', severity: 'high', via: [{ title: 'reads beyond its end' }] },
      right: { name: 'right', severity: 'high', via: ['left'] }
    })
    expect(told(verdictOf(given), { strict: false })).toEqual({
      text: 'high  left: reads beyond its end\nhigh  right: by left',
      exitCode: 1
    })
    expect(told(verdictOf(report({})), { strict: true })).toEqual({
      text: 'no known fault in the 214 packages that users install',
      exitCode: 0
    })
  })

  it('never calls clean what nobody could look at: it says so and lets the work go on, or ends with 4 where it is strict', () => {
    const silent = ['', 'npm error network', '{}', '[]', 'null', '{"message":"request to the registry failed, reason: ENOTFOUND"}']
    const refused = [
      '{"error":{"code":"ENOAUDIT","summary":"the registry has no audit"}}',
      '{"vulnerabilities":{}}',
      '{"vulnerabilities":null}'
    ]
    for (const printed of [...silent, ...refused]) {
      const { text, exitCode } = told(verdictOf(printed), { strict: false })
      expect([printed, exitCode]).toEqual([printed, 0])
      expect(text).toMatch(/^NOT CHECKED: .+; run it again with a network$/)
      expect(told(verdictOf(printed), { strict: true }).exitCode).toBe(4)
    }
  })
})
