import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { configJsonSchema, defaultsByName } from '../../src/config/json-schema.ts'
import { loadConfig, parseConfig } from '../../src/config/load.ts'
import { reloadConfig } from '../../src/config/reload.ts'
import { listSettings } from '../../src/config/setting-list.ts'
import { SETTING_WORDS } from '../../src/config/setting-words.ts'
import { createLogger } from '../../src/platform/pino-logger.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'rookery-settings-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

describe('the list of settings', () => {
  it('says of each what it means, and of none that is not there', () => {
    expect(Object.keys(SETTING_WORDS)).toEqual(listSettings().map(({ name }) => name))
  })

  it('gives each a variable of its own', () => {
    expect(new Set(listSettings().map(({ variable }) => variable)).size).toBe(listSettings().length)
  })

  it('gives defaults as one writes them: a file of all of them is a file of none', () => {
    const file: { [key: string]: unknown } = {}
    const defaults = defaultsByName()
    for (const { path, name } of listSettings()) {
      const value = defaults.get(name)
      if (value === undefined) continue
      let at = file
      for (const part of path.slice(0, -1)) {
        at[part] ??= {}
        at = at[part] as { [key: string]: unknown }
      }
      at[path.at(-1) as string] = value
    }
    expect(Object.keys(file).length).toBeGreaterThan(10)
    expect(parseConfig(file as never)).toEqual(parseConfig({}))
  })

  it('has a JSON Schema that knows every one', () => {
    const text = JSON.stringify(configJsonSchema())
    for (const words of Object.values(SETTING_WORDS)) expect(text).toContain(JSON.stringify(words))
  })
})

describe('a settings file', () => {
  it('may be JSON, and its places are named all the same', () => {
    writeFileSync(join(dir, 'config.json'), '{\n  "sessionsMax": 3\n}\n')
    const { config, file, where } = loadConfig({ dataDir: dir, env: {} })
    expect(config.sessionsMax).toBe(3)
    expect(file).toBe(join(dir, 'config.json'))
    expect(where(['sessionsMax'])).toBe(`${file}, line 2, column 3`)
    expect(where(['registrarsMax'])).toBeUndefined()
  })

  it('is refused where there are two', () => {
    for (const name of ['config.json', 'config.yaml']) writeFileSync(join(dir, name), '{}')
    expect(() => loadConfig({ dataDir: dir, env: {} })).toThrow(
      expect.objectContaining({ code: 'CONFIG_INVALID', remedy: expect.stringContaining('--config') })
    )
  })

  it('gives way to variables, which hold lists of objects and maps as JSON', () => {
    const env = { ROOKERY_LOGS_LEVELS: '{"a2a":"debug"}', ROOKERY_SESSIONS_CONTRACTS: '{not json' }
    expect(() => loadConfig({ dataDir: dir, env })).toThrow(
      expect.objectContaining({ field: 'sessions.contracts', message: expect.stringContaining('ROOKERY_SESSIONS_CONTRACTS') })
    )
    expect(loadConfig({ dataDir: dir, env: { ROOKERY_LOGS_LEVELS: '{"a2a":"debug"}' } }).config.logs.levels).toEqual({ a2a: 'debug' })
  })
})

describe('settings read anew', () => {
  it('go into the groups that the parts of the node hold, where they can be followed at once', () => {
    const current = parseConfig({})
    const { queue } = current
    const next = parseConfig({
      queue: { messagesMax: 9, messagesPerPeerMax: 9, ttlMax: '1h' },
      http: { port: 1_234 },
      logs: { level: 'warn' }
    })
    expect(reloadConfig(current, next)).toEqual({
      applied: ['queue.messagesMax', 'queue.messagesPerPeerMax', 'queue.ttlMax', 'logs.level'],
      restart: ['http.port']
    })
    expect(queue).toEqual({ ...parseConfig({}).queue, messagesMax: 9, messagesPerPeerMax: 9, ttlMaxMs: 3_600_000 })
    expect(current.http.port).toBeUndefined()
    expect(reloadConfig(current, next)).toEqual({ applied: [], restart: ['http.port'] })
  })
})

describe('levels of the log', () => {
  it('may differ by component, and change for loggers that are there already', () => {
    const lines: string[] = []
    const logger = createLogger({ level: 'warn', levels: { a2a: 'debug' }, sink: { write: (line) => void lines.push(line) } })
    const [a2a, edge, net] = [logger.child('a2a'), logger.child('a2a').child('edge'), logger.child('net')]
    const said = () => lines.splice(0).map((line) => (JSON.parse(line) as { msg: string }).msg)
    const speak = () => {
      a2a.debug({}, 'a2a')
      edge.debug({}, 'edge')
      net.info({}, 'net')
      net.warn({}, 'net warns')
      return said()
    }
    expect(speak()).toEqual(['a2a', 'edge', 'net warns'])
    logger.setLevels({ level: 'info', levels: { 'a2a:edge': 'silent' } })
    expect(speak()).toEqual(['net', 'net warns'])
  })
})
