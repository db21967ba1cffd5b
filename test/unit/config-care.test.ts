import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { loadConfig, parseConfig } from '../../src/config/load.ts'
import { MASK, masked } from '../../src/config/masked.ts'
import { nearestName } from '../../src/config/nearest-name.ts'
import { isLive, reloadConfig } from '../../src/config/reload.ts'
import type { Config } from '../../src/config/schema.ts'
import { listSettings, type Setting } from '../../src/config/setting-list.ts'
import { RookeryError } from '../../src/errors.ts'

const HIDDEN = 'hunter2-must-not-be-shown'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'rookery-config-care-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

function refusal(call: () => unknown): RookeryError {
  try {
    call()
  } catch (error) {
    if (error instanceof RookeryError) return error
    throw error
  }
  throw new Error('nothing was refused')
}
const load = (text: string, env: NodeJS.ProcessEnv = {}, name = 'config.yaml') => {
  writeFileSync(join(dir, name), text)
  return loadConfig({ dataDir: dir, env })
}

describe('where a setting comes from', () => {
  it('is told for each of the four places, and a stronger one wins over every weaker', () => {
    const file = join(dir, 'config.yaml')
    writeFileSync(file, 'sessionsMax: 2\nconnectionsMax: 20\n')
    const env = { ROOKERY_SESSIONS_MAX: '3', ROOKERY_REGISTRARS_MAX: '4' }
    const all = loadConfig({ dataDir: dir, env, flags: { sessionsMax: 5 } })
    expect([all.config.sessionsMax, all.where(['sessionsMax'])]).toEqual([5, 'flag or argument sessionsMax'])
    const noFlag = loadConfig({ dataDir: dir, env })
    expect([noFlag.config.sessionsMax, noFlag.where(['sessionsMax'])]).toEqual([3, 'environment variable ROOKERY_SESSIONS_MAX'])
    const fileOnly = loadConfig({ dataDir: dir, env: {} })
    expect([fileOnly.config.sessionsMax, fileOnly.where(['sessionsMax'])]).toEqual([2, `${file}, line 1, column 1`])
    rmSync(file)
    const defaults = loadConfig({ dataDir: dir, env: {} })
    expect([defaults.config.sessionsMax, defaults.where(['sessionsMax'])]).toEqual([1_000, undefined])
  })

  it('makes no difference between YAML and JSON', () => {
    const settings = { network: 'public', http: { port: 81 }, keepers: [], queue: { ttlMax: '3d' }, logs: { levels: { a2a: 'debug' } } }
    const yaml = load('network: public\nhttp: {port: 81}\nkeepers: []\nqueue:\n  ttlMax: 3d\nlogs:\n  levels:\n    a2a: debug\n').config
    rmSync(join(dir, 'config.yaml'))
    expect(load(JSON.stringify(settings), {}, 'config.json').config).toEqual(yaml)
  })
})

describe('a name that is no setting', () => {
  it('is answered with the one that was meant, where one is near', () => {
    const cases = { netwrk: 'network', Listen: 'listen', bootstarp: 'bootstrap', 'http.prot': 'http.port', 'queue.ttlmax': 'queue.ttlMax' }
    for (const [given, meant] of Object.entries(cases)) {
      const [group, name] = given.includes('.') ? given.split('.') : [undefined, given]
      const { field, remedy } = refusal(() => load(group === undefined ? `${name}: 1\n` : `${group}:\n  ${name}: 1\n`))
      expect(field).toBe(given)
      expect(remedy).toMatch(new RegExp(`^did you mean "${meant.split('.').at(-1)}"\\? known here: `))
    }
    expect(refusal(() => load('nothingOfTheKind: 1\n')).remedy).toMatch(/^known here: /)
    expect(nearestName('', ['listen'])).toBeUndefined()
    expect(nearestName('x'.repeat(10_000), ['listen'])).toBeUndefined()
  })
})

describe('secrets', () => {
  it('that somebody wrote where none belongs are in no error, under whatever name', () => {
    for (const name of [
      'password',
      'passphrase',
      'token',
      'http_token',
      'secret',
      'clientSecret',
      'apiKey',
      'api_key',
      'privateKey',
      'seed',
      'credentials',
      'cookie',
      'authorization',
      'key'
    ]) {
      const error = refusal(() => load(`${name}: ${HIDDEN}\n`))
      expect(JSON.stringify(error.toJSON()), name).not.toContain(HIDDEN)
      expect(error.value).toBe(MASK)
    }
  })

  it('in a URL are refused and not shown, from the file and from the environment', () => {
    const url = `https://user:${HIDDEN}@example.com/`
    for (const [yaml, field] of [
      [`http:\n  publicUrl: ${url}\n`, 'http.publicUrl'],
      [`tracing:\n  endpoint: ${url}\n`, 'tracing.endpoint']
    ] as const) {
      const error = refusal(() => load(yaml))
      expect(error).toMatchObject({ field, value: MASK, message: expect.stringContaining('must hold no user name and no password') })
      expect(JSON.stringify(error.toJSON())).not.toContain(HIDDEN)
    }
    const fromEnv = refusal(() => load('', { ROOKERY_HTTP_PUBLIC_URL: url }))
    expect(JSON.stringify(fromEnv.toJSON())).not.toContain(HIDDEN)
  })

  it('in variables that are no settings are not repeated in the warning about them', () => {
    expect(load('', { ROOKERY_TOKEN: HIDDEN, ROOKERY_PASSPHRASE: HIDDEN }).warnings.join()).not.toContain(HIDDEN)
  })

  it('on a line that is no YAML are not repeated either', () => {
    const error = refusal(() => load(`token: "${HIDDEN}\n  x: [`))
    expect(JSON.stringify(error.toJSON())).not.toContain(HIDDEN)
  })

  it('are left out at any depth, and what is none stays', () => {
    expect(masked({ a: [{ token: HIDDEN }], url: `http://u:${HIDDEN}@h/`, n: 1, agent: 'authorbot' }, [])).toEqual({
      a: [{ token: MASK }],
      url: MASK,
      n: 1,
      agent: 'authorbot'
    })
  })
})

/** Values of which one or another fits most settings. */
const OTHERS: unknown[] = [
  3,
  -32_001,
  'yes',
  ['/ip4/192.0.2.1/udp/4711/quic-v1/p2p/12D3KooWGC6TvWhfapngX6wvJHMYvKpDMXPb3ZnCZ6dMoaMtimQ5'],
  true,
  false,
  7,
  9,
  33,
  100,
  2_048,
  0.5,
  '33s',
  '2h',
  '3d',
  'public',
  'off',
  'no',
  'nobody',
  'anyone',
  'plain',
  'log',
  'warn',
  'client',
  'sleep',
  'echo',
  'loopback',
  'keep',
  '127.0.0.2',
  '192.0.2.1',
  'https://example.com/',
  ['bob'],
  [8_443],
  ['/ip4/127.0.0.1/tcp/1'],
  ['did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG'],
  {},
  { a2a: 'debug' },
  [{ name: 'r', from: ['did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG'] }],
  { bob: {} },
  { allowedRegions: ['276'] }
]

function changed({ path }: Setting, value: unknown): Config | undefined {
  const input = path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value)
  try {
    const config = parseConfig(input as never)
    return isDeepStrictEqual(config, parseConfig({})) ? undefined : config
  } catch (error) {
    if (error instanceof RookeryError) return undefined
    throw error
  }
}

describe('a change of any setting', () => {
  it('is followed at once where `config show` says so, and else said to wait for a restart', () => {
    const tried: string[] = []
    for (const setting of listSettings()) {
      const next = OTHERS.map((value) => changed(setting, value)).find((config) => config !== undefined)
      if (next === undefined) continue
      tried.push(setting.name)
      const current = parseConfig({})
      const { applied, restart } = reloadConfig(current, next)
      expect([applied, restart], setting.name).toEqual(isLive(setting) ? [[setting.name], []] : [[], [setting.name]])
      expect(isDeepStrictEqual(current, next), setting.name).toBe(isLive(setting))
    }
    // those that no value of the list above fits are few
    expect(tried.length / listSettings().length).toBeGreaterThan(0.9)
  })
})
