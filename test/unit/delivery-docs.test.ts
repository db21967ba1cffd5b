import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { QUEUE_BOUNDS_DEFAULT } from '../../protocol/delivery/bounds.ts'
import { DEPOSIT_OBJECT_BYTES_MAX } from '../../protocol/delivery/mailbox.ts'
import { MODE_NAMES, MODE_WORDS, modeOf, REACHABILITY_MODES } from '../../protocol/delivery/modes.ts'
import { keepsMessages } from '../../protocol/delivery/reachability.ts'
import { agentCard, REACHABILITY_EXTENSION_URI } from '../../src/a2a/agent-card.ts'
import { CONTROL_PARAMS } from '../../src/api/methods.ts'
import { parseConfig } from '../../src/config/load.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import { localAgent } from './delivery-fixtures.ts'

const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/delivery.md'), 'utf8')
const section = (title: string) => page.split('\n## ').find((part) => part.startsWith(title)) ?? ''
const tableOf = (title: string) =>
  section(title)
    .split('\n')
    .filter((line) => line.startsWith('| ') && !line.startsWith('| ---'))
    .slice(1)
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim().replaceAll('`', ''))
    )
const files = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name))

describe('the page on delivery', () => {
  it('[OD-04] [OD-12] lists the modes that the code has, by both names, and so does the card of each', () => {
    const rows = tableOf('Modes')
    expect(rows.map(([mode]) => mode)).toEqual([...REACHABILITY_MODES])
    for (const mode of REACHABILITY_MODES) {
      const [, name, , keeps] = rows.find(([one]) => one === mode) ?? []
      expect(name).toBe(MODE_NAMES[mode])
      expect(keeps?.startsWith('yes')).toBe(keepsMessages({ mode }))
      expect([modeOf(mode), modeOf(MODE_NAMES[mode])]).toEqual([mode, mode])
      const card = agentCard({
        agent: localAgent('bob', { mode }),
        skills: [],
        version: '1',
        rpcUrl: 'http://127.0.0.1',
        bounds: undefined
      })
      const [extension] = (card.capabilities as JsonObject).extensions as JsonObject[]
      expect(extension).toMatchObject({ uri: REACHABILITY_EXTENSION_URI, params: { mode, name: MODE_NAMES[mode] } })
    }
    expect([...MODE_WORDS].sort()).toEqual([...REACHABILITY_MODES, ...Object.values(MODE_NAMES)].sort())
    expect(modeOf('asleep')).toBeUndefined()
  })

  it('[OD-29] [OD-30] names the bounds that the settings have', () => {
    const { queue, delivery } = parseConfig({})
    expect(queue).toEqual(QUEUE_BOUNDS_DEFAULT)
    expect(tableOf('Bounds').map(([, value]) => Number(value))).toEqual([
      queue.messagesMax,
      queue.bytesMax,
      queue.messagesPerPeerMax,
      queue.ttlMaxMs / 1_000,
      DEPOSIT_OBJECT_BYTES_MAX,
      delivery.drainPerSec
    ])
  })

  it('[OD-43] [G-15] names the path from the queue to the task', () => {
    expect(section('From the queue')).toMatch(/\*\*This node takes a third: effectively once\.\*\*/)
  })

  it('[OD-02] says what is left out, and no module, setting, method or dependency is about it', () => {
    const left = section('Left out on purpose')
    for (const what of ['push', 'e-mail', 'MLS', 'payment']) expect(left).toContain(what)
    const about = /(^|[^a-z])(fcm|apns|firebase|web-?push|smtp|imap|nodemailer|mail-?bridge|mls|openmls|stripe|payments?|x402)([^a-z]|$)/i
    const settings = (value: unknown): string[] =>
      typeof value === 'object' && value !== null ? Object.entries(value).flatMap(([name, inner]) => [name, ...settings(inner)]) : []
    const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { dependencies: Record<string, string> }
    const names = [
      ...files('src'),
      ...files('protocol'),
      ...settings(parseConfig({})),
      ...Object.keys(CONTROL_PARAMS),
      ...Object.keys(dependencies)
    ]
    expect(names.length).toBeGreaterThan(200)
    expect(names.filter((name) => about.test(name))).toEqual([])
    for (const caught of ['src/push/fcm.ts', 'mail-bridge', 'payments']) expect(caught).toMatch(about)
  })

  it('[OD-01] delivery stands beside groups: neither imports the other', () => {
    const importsOf = (file: string) =>
      [...readFileSync(join(root, file), 'utf8').matchAll(/from '([^']+)'/g)].map(([, name]) => name as string)
    const all = [...files('src'), ...files('protocol')]
    const isDelivery = (file: string) => /(^|\/)delivery\//.test(file)
    const isGroup = (file: string) => /(^|\/)groups?(\/|[.-])/.test(file)
    expect(all.filter(isDelivery).length).toBeGreaterThan(15)
    for (const file of all) {
      const imports = importsOf(file)
      if (isDelivery(file)) expect([file, imports.filter(isGroup)]).toEqual([file, []])
      if (isGroup(file)) expect([file, imports.filter(isDelivery)]).toEqual([file, []])
    }
  })
})
