import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { QUEUE_BOUNDS_DEFAULT } from '../../protocol/delivery/bounds.ts'
import { MODE_NAMES, REACHABILITY_MODES } from '../../protocol/delivery/modes.ts'
import { scopeNames } from '../../protocol/session/contract-policy.ts'
import { dataDirOf, loadConfig, parseConfig } from '../../src/config/load.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { formatDuration, parseDurationMs } from '../../src/config/units.ts'
import { RookeryError } from '../../src/errors.ts'

const PEER = '12D3KooWGC6TvWhfapngX6wvJHMYvKpDMXPb3ZnCZ6dMoaMtimQ5'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'rookery-config-'))
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

const load = (input: { yaml?: string; env?: NodeJS.ProcessEnv; flags?: ConfigInput } = {}) => {
  if (input.yaml !== undefined) writeFileSync(join(dir, 'config.yaml'), input.yaml)
  return loadConfig({ dataDir: dir, env: input.env ?? {}, flags: input.flags ?? {} })
}

describe('settings', () => {
  it('has a default for every one, and the queue bounds of the reference [OD-29]', () => {
    const config = parseConfig({})
    expect(config.network).toBe('lan')
    expect(config.http).toEqual({ enabled: true, host: '127.0.0.1', bodyBytesMax: 1_048_576, legacy: false })
    expect(config.queue).toEqual(QUEUE_BOUNDS_DEFAULT)
  })

  it('come from defaults, then the file, then the environment, then flags', () => {
    const yaml = 'sessionsMax: 2\nregistrarsMax: 3\nconnectionsMax: 40\n'
    const env = { ROOKERY_REGISTRARS_MAX: '4', ROOKERY_CONNECTIONS_MAX: '50' }
    const { config, file } = load({ yaml, env, flags: { connectionsMax: 60 } })
    expect(file).toBe(join(dir, 'config.yaml'))
    expect([config.dht.k, config.sessionsMax, config.registrarsMax, config.connectionsMax]).toEqual([20, 2, 4, 60])
  })

  it('reads nested settings, lists and switches from the environment', () => {
    const env = {
      ROOKERY_HTTP_BODY_BYTES_MAX: '2048',
      ROOKERY_MDNS: 'yes',
      ROOKERY_LISTEN: '/ip4/127.0.0.1/udp/0/quic-v1, /ip4/127.0.0.1/tcp/0'
    }
    const { config } = load({ env })
    expect(config.http.bodyBytesMax).toBe(2_048)
    expect(config.mdns).toBe(true)
    expect(config.listen).toEqual(['/ip4/127.0.0.1/udp/0/quic-v1', '/ip4/127.0.0.1/tcp/0'])
  })

  it('warns of a variable that is no setting, since Kubernetes makes such for a service called rookery', () => {
    const { warnings } = load({ env: { ROOKERY_PORT: 'tcp://10.0.0.1:80' } })
    expect(warnings).toEqual(['the environment variable ROOKERY_PORT is no setting and is ignored'])
  })

  it('accepts the four short names of reachability modes, and those of the draft as names for them [OD-12]', () => {
    for (const mode of REACHABILITY_MODES) {
      expect(parseConfig({ agents: { mode } }).agents.mode).toBe(mode)
      expect(parseConfig({ agents: { mode: MODE_NAMES[mode] as 'SessionOnly' } }).agents.mode).toBe(mode)
    }
    expect(refusal(() => parseConfig({ agents: { mode: 'asleep' as never } }))).toMatchObject({ field: 'agents.mode' })
  })
})

describe('the contract that a node offers', () => {
  it('[SFC-05] is none by default, and a finite one where it is asked for without more', () => {
    expect(parseConfig({}).sessions.contract).toBe('off')
    const block = parseConfig({ sessions: { contract: {} } }).sessions.contract
    expect(block).toMatchObject({ site: 'any', messagesPerMinuteMax: 600, sessionSecondsMax: 86_400, eseBytesMax: 0 })
    expect(block === 'off' ? [] : scopeNames(block.scopes)).toEqual(['send-messages', 'create-tasks', 'stream', 'mailbox'])
  })

  it('[SFC-06] takes every field by its name', () => {
    const yaml = 'sessions:\n  contract:\n    site: edge\n    scopes: [mailbox]\n    payloadBytesMax: 1024\n    region: 276\n'
    expect(load({ yaml }).config.sessions.contract).toMatchObject({ site: 'edge', scopes: 32, payloadBytesMax: 1_024, region: 276 })
  })
})

describe('the contract of single agents', () => {
  it('[SFC-05] stands by name, each with the defaults of the block or off', () => {
    const yaml = 'sessions:\n  contracts:\n    scribe: { payloadBytesMax: 4096 }\n    guard: "off"\n'
    const { contract, contracts } = load({ yaml }).config.sessions
    expect(contract).toBe('off')
    expect(contracts).toMatchObject({ scribe: { payloadBytesMax: 4_096, messagesPerMinuteMax: 600 }, guard: 'off' })
    expect(() => load({ yaml: 'sessions:\n  contracts:\n    scribe: { payloadMax: 1 }\n' })).toThrow(/payloadMax/)
  })
})

describe('a wrong setting is refused with its name, its value and where it stands', () => {
  const cases: [name: string, yaml: string, field: string, where: string, text: RegExp][] = [
    ['an unknown name', 'network: lan\nnetwrk: lan\n', 'netwrk', 'line 2, column 1', /known name/],
    ['an unknown nested name', 'queue:\n  messageMax: 4\n', 'queue.messageMax', 'line 2, column 3', /known name/],
    ['a wrong type', 'mdns: perhaps\n', 'mdns', 'line 1, column 1', /boolean/],
    ['a port out of range', 'http:\n  port: 70000\n', 'http.port', 'line 2, column 3', /at most 65535/],
    ['a fraction', 'sessionsMax: 1.5\n', 'sessionsMax', 'line 1, column 1', /int/],
    [
      'a contract with a limit below zero',
      'sessions:\n  contract: { payloadBytesMax: -1 }\n',
      'sessions.contract',
      'line 2, column 3',
      /payloadBytesMax/
    ],
    [
      'a contract of no seconds',
      'sessions:\n  contract: { sessionSecondsMax: 0 }\n',
      'sessions.contract',
      'line 2, column 3',
      /no seconds/
    ],
    ['a contract that is a word', 'sessions:\n  contract: "on"\n', 'sessions.contract', 'line 2, column 3', /"off"/],
    ['an address on all interfaces', 'http:\n  host: 0.0.0.0\n', 'http.host', 'line 2, column 3', /loopback/],
    ['a public URL with a query', 'http:\n  publicUrl: "https://example.net/?a=1"\n', 'http.publicUrl', 'line 2, column 3', /no query/],
    ['no multiaddr', 'listen:\n  - localhost:80\n', 'listen[0]', 'line 2, column 5', /multiaddr/],
    ['a data directory inside the file', 'dataDir: /tmp/x\n', 'dataDir', '', /cannot be set/]
  ]
  for (const [name, yaml, field, where, text] of cases) {
    it(name, () => {
      const error = refusal(() => load({ yaml }))
      expect(error.code).toBe('CONFIG_INVALID')
      expect(error.kind).toBe('config')
      expect(error.field).toBe(field)
      expect(error.message).toMatch(text)
      expect(error.message).toContain(where)
      expect(error.remedy).toBeTruthy()
    })
  }

  it('names the variable or the flag where that is the source', () => {
    expect(refusal(() => load({ env: { ROOKERY_HTTP_PORT: 'abc' } })).message).toContain('environment variable ROOKERY_HTTP_PORT')
    expect(refusal(() => load({ flags: { http: { port: -1 } } })).message).toContain('flag or argument http.port')
  })

  it('a per-peer bound above the whole queue is refused', () => {
    expect(refusal(() => parseConfig({ queue: { messagesMax: 10, messagesPerPeerMax: 11 } })).field).toBe('queue.messagesPerPeerMax')
  })

  it('names the known settings beside an unknown one', () => {
    expect(refusal(() => load({ yaml: 'queue:\n  max: 4\n' })).remedy).toContain('messagesMax, bytesMax, messagesPerPeerMax, ttlMax')
  })
})

describe('the file', () => {
  it('with broken YAML is refused with line and column', () => {
    const error = refusal(() => load({ yaml: 'network: lan\nhttp: {port: 1\n' }))
    expect(error).toMatchObject({ code: 'CONFIG_INVALID', kind: 'config' })
    expect(error.message).toMatch(/config\.yaml, line \d+, column \d+: /)
    expect(error.data).toMatchObject({ file: join(dir, 'config.yaml') })
  })

  it('with a doubled name is refused', () => {
    expect(refusal(() => load({ yaml: 'mdns: true\nmdns: false\n' })).message).toContain('line 2')
  })

  it('that holds a list, or aliases that would grow, is refused', () => {
    expect(refusal(() => load({ yaml: '- a\n' })).message).toContain('must be a map')
    expect(refusal(() => load({ yaml: 'announce: &a [x]\nbootstrap: [*a, *a]\n' })).code).toBe('CONFIG_INVALID')
  })

  it('that is binary, or named and missing, is refused by its path', () => {
    writeFileSync(join(dir, 'config.yaml'), Uint8Array.of(0xff, 0xfe, 0x00))
    expect(refusal(() => load())).toMatchObject({ code: 'CONFIG_UNREADABLE', field: join(dir, 'config.yaml') })
    expect(refusal(() => loadConfig({ dataDir: dir, configFile: join(dir, 'other.yaml'), env: {} })).code).toBe('CONFIG_UNREADABLE')
  })

  it('that is a folder is refused by its path', () => {
    mkdirSync(join(dir, 'config.yaml'))
    expect(refusal(() => load())).toMatchObject({ code: 'CONFIG_UNREADABLE', field: join(dir, 'config.yaml') })
  })

  it('that is empty, or is not there, leaves the defaults', () => {
    expect(load().file).toBeUndefined()
    expect(load({ yaml: '# nothing\n' }).config.network).toBe('lan')
  })

  it('meets any text with settings or a RookeryError, nothing else', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (yaml) => {
        try {
          load({ yaml })
        } catch (error) {
          expect(error).toBeInstanceOf(RookeryError)
        }
      }),
      { numRuns: 300 }
    )
  })
})

describe('lengths of time [F079]', () => {
  it('need a unit: a bare number, a negative or an absurd one is refused with the name of the setting', () => {
    for (const value of [20, 20_000, '20', -1, 0, 1e12, '-1s', '1e3s', '20 m', '', '999999999d', null, {}]) {
      const error = refusal(() => parseConfig({ tasks: { lease: value as never } }))
      expect(error).toMatchObject({ code: 'CONFIG_INVALID', field: 'tasks.lease' })
      expect(error.message).toMatch(/unit|from 1s to 1d/)
    }
  })

  it('mean what their unit says', () => {
    expect(parseConfig({ tasks: { lease: '20s' } }).tasks.leaseMs).toBe(20_000)
    expect(parseConfig({ tasks: { lease: '20m' } }).tasks.leaseMs).toBe(1_200_000)
    expect(parseConfig({ queue: { ttlMax: '1.5h' } }).queue.ttlMaxMs).toBe(5_400_000)
  })

  it('come back from their text', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 30 * 86_400_000 }), (ms) => {
        expect(parseDurationMs(formatDuration(ms))).toBe(ms)
      })
    )
  })
})

describe('the bootstrap list [F106]', () => {
  const good = `/ip4/192.0.2.1/udp/4711/quic-v1/p2p/${PEER}`

  it('takes a dead address, an unresolvable name and itself, and warns of a copy', () => {
    const dns = `/dns4/nowhere.invalid/udp/4711/quic-v1/p2p/${PEER}`
    const { config, warnings } = load({ flags: { bootstrap: [good, dns, good] } })
    expect(config.bootstrap).toEqual([good, dns])
    expect(warnings).toHaveLength(1)
  })

  it('with a malformed entry is refused by position and value', () => {
    for (const bad of ['192.0.2.1:4711', '/ip4/192.0.2.1/udp/4711/quic-v1', '/ip4/300.1.1.1/udp/1/quic-v1', '']) {
      const error = refusal(() => load({ flags: { bootstrap: [good, bad] } }))
      expect(error).toMatchObject({ code: 'CONFIG_INVALID', field: 'bootstrap[1]', value: bad })
    }
  })
})

describe('the data directory', () => {
  it('is the flag, else ROOKERY_HOME, else ~/.rookery, always absolute [F097]', () => {
    expect(dataDirOf('a/b/', {}, '/home/x')).toBe('/home/x/a/b')
    expect(dataDirOf(undefined, { ROOKERY_HOME: '/srv/r' }, '/home/x')).toBe('/srv/r')
    expect(dataDirOf('/flag', { ROOKERY_HOME: '/srv/r' })).toBe('/flag')
    expect(dataDirOf(undefined, { ROOKERY_HOME: '' })).toMatch(/\.rookery$/)
  })
})
