import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { apiReports, entryPoints, reportFile } from '../../scripts/api-report.ts'

const ROOT = join(import.meta.dirname, '../..')
const BIN = join(ROOT, 'node_modules/.bin')
const LONG_MS = 600_000
const run = promisify(execFile)
/** npm and the tools run on the Node that runs this test. */
const env = { ...process.env, PATH: `${join(process.execPath, '..')}:${BIN}:${process.env.PATH}`, npm_config_update_notifier: 'false' }
const call = (cwd: string, command: string, ...argv: string[]) =>
  run(command, argv, { cwd, env, timeout: LONG_MS, maxBuffer: 64 * 2 ** 20 })

const folder = mkdtempSync(join(tmpdir(), 'rookery-pack-'))
const user = join(folder, 'user')
let tarball = ''

beforeAll(async () => {
  await call(ROOT, 'npm', 'pack', '--pack-destination', folder)
  tarball = join(folder, readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? '')
  mkdirSync(user)
  writeFileSync(join(user, 'package.json'), '{ "name": "user", "private": true, "type": "module" }\n')
  await call(user, 'npm', 'install', tarball, '--prefer-offline', '--no-audit', '--no-fund', '--ignore-scripts')
}, LONG_MS)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const rookery = (...argv: string[]) => call(user, join(user, 'node_modules/.bin/rookery'), ...argv)

describe('the package, installed in an empty folder', () => {
  it(
    '[package] runs: its version, a node that starts, answers and stops',
    async () => {
      const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }
      expect((await rookery('--version')).stdout).toBe(`${version}\n`)
      await rookery('init', '--data', 'a', '--agent', 'alice', '--handler', 'echo')
      const loopback = ['--listen', '/ip4/127.0.0.1/udp/0/quic-v1', '--http-port', '0', '--log-level', 'warn']
      const node = rookery('start', '--data', 'a', ...loopback)
      await rookery('status', '--data', 'a', '--wait', '120s')
      expect((await rookery('send', 'alice', '--text', 'hello', '--data', 'a')).stdout).toMatch(/completed\nhello\n/)
      await rookery('stop', '--data', 'a')
      expect((await node).stdout).toContain('agents alice')
    },
    LONG_MS
  )

  it(
    '[package] gives every export that it promises, and nothing below dist/ besides',
    async () => {
      // the bundle for pages needs a page: its tests are in test/integration
      const names = [...entryPoints().keys()].filter((name) => name !== 'rookery/browser')
      writeFileSync(
        join(user, 'imports.mjs'),
        `const counts = {}
for (const name of ${JSON.stringify(names)}) counts[name] = Object.keys(await import(name)).length
const refused = await import('rookery/dist/src/index.js').catch((error) => error.code)
const bundle = (await import('node:fs')).existsSync(new URL(import.meta.resolve('rookery/browser')))
console.log(JSON.stringify({ counts, refused, bundle }))\n`
      )
      const told = await call(user, process.execPath, 'imports.mjs')
      const { counts, refused, bundle } = JSON.parse(told.stdout) as { counts: object; refused: string; bundle: boolean }
      expect(bundle).toBe(true)
      expect(Object.keys(counts)).toEqual(names)
      for (const count of Object.values(counts)) expect(count).toBeGreaterThan(0)
      expect(refused).toBe('ERR_PACKAGE_PATH_NOT_EXPORTED')
    },
    LONG_MS
  )

  it.each([
    ['bundler', 'esnext'],
    ['node16', 'node16']
  ])(
    '[package] has types that a consumer’s compiler finds with moduleResolution %s',
    async (moduleResolution, module) => {
      const project = join(user, moduleResolution)
      mkdirSync(project)
      const imports = [...entryPoints().keys()].map(
        (name, i) => `import * as entry${i} from '${name}'\nexport const keys${i} = Object.keys(entry${i})`
      )
      writeFileSync(
        join(project, 'consumer.ts'),
        `${imports.join('\n')}
import { type Config, createNode, parseConfig, type RookeryNode } from 'rookery'
export const node: Promise<RookeryNode> = createNode({ listen: ['/ip4/127.0.0.1/udp/0/quic-v1'] })
export const config: Config = parseConfig({ network: 'lan' })
// @ts-expect-error there is no such network
parseConfig({ network: 'moon' })\n`
      )
      const compilerOptions = {
        target: 'es2024',
        lib: ['es2024', 'esnext.disposable', 'dom'],
        module,
        moduleResolution,
        types: [],
        strict: true,
        skipLibCheck: true,
        noEmit: true
      }
      writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['consumer.ts'] }))
      const compiled = await call(project, join(BIN, 'tsc'), '-p', project).catch((error: { stdout?: string }) => ({
        stdout: error.stdout ?? ''
      }))
      expect(compiled.stdout).toBe('')
    },
    LONG_MS
  )

  it(
    '[package] says in one sentence what to do on a Node that is too old, where no other came along',
    async () => {
      const old = join(user, 'old.mjs')
      writeFileSync(old, "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.9.0' } })\n")
      const launcher = join(user, 'node_modules/rookery/bin/rookery.js')
      const failed = await call(user, process.execPath, '--import', old, launcher, '--version').catch((error) => error)
      expect([failed.code, failed.stdout]).toEqual([3, ''])
      expect(failed.stderr).toBe(
        'rookery needs Node 22.12 or newer; this is 20.9.0, and the npm package "node" is not installed beside it\n'
      )
    },
    LONG_MS
  )

  it(
    '[package] is clean for publint and for attw',
    async () => {
      const [lint, types] = await Promise.all([
        call(folder, join(BIN, 'publint'), 'run', tarball, '--strict'),
        call(folder, join(BIN, 'attw'), '--profile', 'esm-only', '--format', 'json', tarball).catch((error: { stdout: string }) => error)
      ])
      expect(lint.stdout).toContain('All good!')
      const { problems } = JSON.parse(types.stdout) as { problems?: Record<string, { kind: string; resolutionKind?: string }[]> }
      const found = Object.values(problems ?? {}).flat()
      expect(found.filter(({ resolutionKind }) => resolutionKind !== 'node10' && resolutionKind !== 'node16-cjs')).toEqual([])
    },
    LONG_MS
  )

  it(
    '[package] exports what api/ says: after a change run `npm run build && npm run api:update`',
    () => {
      for (const [name, text] of apiReports(join(ROOT, 'dist'))) {
        expect(readFileSync(reportFile(name), 'utf8') === text, `${name} differs from its report`).toBe(true)
      }
    },
    LONG_MS
  )

  it(
    '[package] holds no source, no test and no secret',
    async () => {
      const files = (await call(folder, 'tar', '-tzf', tarball)).stdout.trim().split('\n')
      expect(files.filter((name) => /\.test\.|(^|\/)test\/|\.env|node_modules|\.tgz|\.key$/.test(name))).toEqual([])
      for (const name of ['bin/rookery.js', 'dist/src/index.js', 'dist/src/index.d.ts', 'README.md', 'LICENSE-MIT', 'CHANGELOG.md']) {
        expect(files).toContain(`package/${name}`)
      }
    },
    LONG_MS
  )
})
