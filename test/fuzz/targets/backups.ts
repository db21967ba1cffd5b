import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { importAgent } from '../../../src/backup/agent-export.ts'
import { restore } from '../../../src/backup/backup.ts'
import { importNode, kindOfSealed } from '../../../src/backup/node-export.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { AgentFiles } from '../../../src/identity/agent-file.ts'
import { newAgentRecord } from '../../../src/identity/agents.ts'
import { createNodeKey, loadNodeKey } from '../../../src/identity/node-key.ts'
import type { Random } from '../../../src/platform/random.ts'
import { linesText, sealedFile } from '../../support/sealed-archive.ts'
import { mutateJson, mutateLines } from '../engine/mutate-json.ts'
import { text } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { mustBe, mustEqual, refusedOrLater } from './support.ts'
import { fuzzDir } from './temp-dirs.ts'

/** The same keys each time. */
const fixed: Random = { bytes: (length: number) => new Uint8Array(length).fill(7) } as Random
const components = { crypto: nodeCrypto, random: fixed }
const ALLOWED = /^(node\.key|config\.(json|ya?ml)|agents|agents\/[a-z0-9-]{1,32}\.(json|token)|store|store\/[^/]+)$/

let folder: string | undefined

/** One folder for all runs, empty at the start of each. */
function emptied(): string {
  folder ??= fuzzDir()
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true })
  return folder
}

function namesBelow(dir: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' }).sort()
}

/** A node with one agent, as text of its files. */
function madeFiles(): { key: string; agent: string } {
  const dir = emptied()
  createNodeKey(dir, components)
  const files = new AgentFiles(dir, components)
  files.save(newAgentRecord({ name: 'alice', description: 'an agent' }, { random: fixed, nowMs: 1, handler: 'manual' }))
  return { key: readFileSync(join(dir, 'node.key'), 'utf8'), agent: readFileSync(join(dir, 'agents/alice.json'), 'utf8') }
}

const base64 = (value: string) => Buffer.from(value).toString('base64')

const changedLines = mutateLines(
  mutateJson(['file', 'row', 'data', 'files', 'rows', 'node.key', 'config.yaml', 'agents/a.json', '!meta!schema'])
)

/** The text of a backup before its compression. */
const restoring: FuzzTarget = {
  name: 'restore',
  bytesMax: 8_192,
  mutators: [changedLines],
  seeds: () => {
    const { key, agent } = madeFiles()
    const schema = { row: '!meta!schema', data: base64('{"version":1,"by":"0.1.0"}') }
    return [
      linesText({ files: 0, rows: 0 }),
      linesText({ file: 'node.key', data: base64(key) }, { file: 'agents/alice.json', data: base64(agent) }, schema, { files: 2, rows: 1 }),
      linesText({ file: 'config.yaml', data: '' }, { file: 'agents/a.token', data: base64('x') }, { files: 2, rows: 0 }),
      linesText({ row: '!meta!schema', data: base64('{"version":2}') }, { row: '', data: '' }, { files: 0, rows: 2 }),
      linesText({ file: 'agents/../evil', data: '' }, { files: 1, rows: 0 }),
      linesText({ row: 'a', data: 'AA' }, { row: 'a', data: 'AQ' }, { files: 0, rows: 2 })
    ]
  },
  async run(bytes) {
    const dir = emptied()
    const [file, dataDir] = [join(dir, 'given'), join(dir, 'node')]
    writeFileSync(file, await sealedFile('backup', gzipSync(bytes, { level: 1 })))
    const done = await refusedOrLater(() => restore({ dataDir, file, passphrase: async () => undefined }))
    mustBe(
      readdirSync(dir).sort().join() === (done === undefined ? 'given' : 'given,node'),
      'a backup is restored whole, or nothing is left'
    )
    if (done !== undefined) for (const name of namesBelow(dataDir)) mustBe(ALLOWED.test(name), 'nothing is restored that no node has')
  }
}

/** A letter, `a` or `n`, and the text of an exported agent or key. */
const importing: FuzzTarget = {
  name: 'import',
  bytesMax: 4_096,
  mutators: [(bytes, random, other) => Buffer.concat([bytes.subarray(0, 1), changed(bytes.subarray(1), random, other.subarray(1))])],
  seeds: () => {
    const { key, agent } = madeFiles()
    const former = { did: 'did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp', rotatedAtMs: 1, certificate: 'AA' }
    return [
      text(`a${agent}`),
      text(`n${key}`),
      text(`a${JSON.stringify({ ...(JSON.parse(agent) as object), formerly: [former, { ...former, seed: 'AA' }] })}`),
      text('a{"name":"x","did":"y"}')
    ]
  },
  async run(bytes) {
    const dir = emptied()
    const [file, dataDir] = [join(dir, 'given'), join(dir, 'node')]
    const kind = bytes[0] === 0x6e ? 'node' : 'agent'
    writeFileSync(file, await sealedFile(kind, bytes.subarray(1)))
    mustBe((await kindOfSealed(file)).kind === kind, 'the head says what is sealed')
    const passphrase = async () => undefined
    if (kind === 'node') {
      const done = await refusedOrLater(() => importNode(components, { dataDir, file, passphrase }))
      mustBe(existsSync(dataDir) === (done !== undefined), 'a folder is made for a key alone')
      if (done === undefined) return
      mustBe(namesBelow(dataDir).join() === 'node.key' && loadNodeKey(dataDir, nodeCrypto).peer === done.peer, 'what was taken in is a key')
      return
    }
    mkdirSync(dataDir)
    const done = await refusedOrLater(() => importAgent({ dataDir, file, as: undefined, passphrase }))
    const names = namesBelow(dataDir)
    if (done === undefined) return mustBe(names.length === 0, 'what is refused leaves nothing')
    for (const name of names) mustBe(ALLOWED.test(name), 'nothing is made that no node has')
    const path = join(dataDir, 'agents', `${done.name}.json`)
    const [held] = new AgentFiles(dataDir, components).load()
    mustBe(held?.record.name === done.name, 'what was taken in is an agent')
    const written = readFileSync(path)
    new AgentFiles(dataDir, components).save(held.record)
    mustEqual(readFileSync(path), written, 'an agent is kept as it is written')
  }
}

const changed = mutateJson([
  'formerly',
  'mailbox',
  'seed',
  'did',
  'certificate',
  'handler',
  'rotatedAtMs',
  'madeAtMs',
  'kind',
  'agent',
  'v'
])

export const targets: readonly FuzzTarget[] = [restoring, importing]
