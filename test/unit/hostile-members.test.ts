import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { decodeCbor, encodeCbor } from '../../protocol/cbor.ts'
import { parseScenario } from '../../sim/scenario/parse.ts'
import { CONTROL_PARAMS, parseControlCall } from '../../src/api/methods.ts'
import { fromEnvironment } from '../../src/config/environment.ts'
import { defined, merge } from '../../src/config/layers.ts'
import { loadConfig, parseConfig } from '../../src/config/load.ts'
import { parseWork, WORK_PARAMS, type WorkAct } from '../../src/doors/work-params.ts'

const PROTOTYPES = [Object.prototype, Array.prototype, Function.prototype, String.prototype, Map.prototype]
const before = PROTOTYPES.map((one) => Reflect.ownKeys(one))

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  // After whatever was read, every object has what the language gave it.
  expect(PROTOTYPES.map((one) => Reflect.ownKeys(one))).toEqual(before)
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
})

const pollution = (name: string, value: string) => `{${JSON.stringify(name)}:${value}}`
const NAMES = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', '__defineGetter__', 'valueOf']
const ATTACKS = [
  ...NAMES.map((name) => pollution(name, '{"polluted":true,"network":"lan","limit":1}')),
  '{"constructor":{"prototype":{"polluted":true}}}',
  '{"__proto__":{"__proto__":{"polluted":true}}}'
]
const parsed = (text: string) => JSON.parse(text) as Record<string, unknown>

/** What is thrown, or nothing. */
function thrown(work: () => unknown): { code?: string } | undefined {
  try {
    work()
  } catch (error) {
    return error as { code?: string }
  }
  return undefined
}

describe('members named as what every object has', () => {
  it('in settings are unknown settings, from a program, a file or the environment, at the top and below', () => {
    const dir = mkdtempSync(join(tmpdir(), 'rookery-proto-'))
    cleanups.push(() => rmSync(dir, { recursive: true, force: true }))
    for (const attack of ATTACKS) {
      expect([attack, thrown(() => parseConfig(parsed(attack) as never))?.code]).toEqual([attack, 'CONFIG_INVALID'])
      expect([attack, thrown(() => parseConfig({ queue: parsed(attack) } as never))?.code]).toEqual([attack, 'CONFIG_INVALID'])
      for (const text of [attack, `{"queue":${attack}}`]) {
        writeFileSync(join(dir, 'config.json'), text)
        expect([text, thrown(() => loadConfig({ dataDir: dir, env: {} }))?.code]).toEqual([text, 'CONFIG_INVALID'])
      }
    }
    rmSync(join(dir, 'config.json'))
    const warnings: string[] = []
    const { settings } = fromEnvironment({ ROOKERY___PROTO__: 'x', ROOKERY___PROTO___POLLUTED: 'true', ROOKERY_CONSTRUCTOR: 'x' }, warnings)
    expect(Object.getPrototypeOf(settings)).toBe(Object.prototype)
    expect(loadConfig({ dataDir: dir, env: { ROOKERY___PROTO___NETWORK: 'lan' } }).config.network).toBe(
      loadConfig({ dataDir: dir, env: {} }).config.network
    )
  })

  it('are copied and merged as members, never as a prototype', () => {
    const given = parsed('{"a":{"__proto__":{"polluted":true}},"__proto__":{"polluted":true}}')
    for (const made of [defined(given), merge({ a: {} }, given), merge(given, { a: { b: 1 } })]) {
      expect(Object.getPrototypeOf(made)).toBe(Object.prototype)
      expect((made as { polluted?: unknown }).polluted).toBeUndefined()
      expect(Object.hasOwn(made, '__proto__')).toBe(true)
      expect(Object.getPrototypeOf(made.a)).toBe(Object.prototype)
    }
  })

  it('in calls of the control API and of the claim API name no method and are no parameter', () => {
    for (const name of NAMES) expect(thrown(() => parseControlCall(name, {}))?.code).toBe('METHOD_UNKNOWN')
    for (const attack of ATTACKS) {
      for (const method of Object.keys(CONTROL_PARAMS)) {
        const error = thrown(() => {
          const { params } = parseControlCall(method, parsed(attack))
          expect(Object.getPrototypeOf(params)).toBe(Object.prototype)
          expect((params as { polluted?: unknown; limit?: unknown }).limit).toBeUndefined()
        })
        if (error !== undefined) expect([method, attack, error.code]).toEqual([method, attack, 'PARAMS_INVALID'])
      }
      for (const act of Object.keys(WORK_PARAMS) as WorkAct[]) {
        expect([act, attack, thrown(() => parseWork(act, parsed(attack)))?.code]).toEqual([act, attack, 'PARAMS_INVALID'])
      }
    }
  })

  it('in a scenario are refused', () => {
    for (const attack of ATTACKS) {
      expect(thrown(() => parseScenario(attack, 'attack.yaml'))).toMatchObject({ code: expect.any(String) })
    }
  })

  it('in CBOR are members, and come back as they came', () => {
    for (const name of NAMES) {
      const given = Object.defineProperty({}, name, { value: 1, enumerable: true })
      const made = decodeCbor(encodeCbor(given as never)) as object
      expect(Object.getPrototypeOf(made)).toBe(Object.prototype)
      expect(Object.entries(made)).toEqual([[name, 1]])
    }
  })
})
