/**
 * What does a new group key cost its owner and a member, by the sealed distribution (protocol/README.md §6, Groups) and by MLS (RFC 9420)?
 *
 * MLS takes part where `ts-mls` can be loaded. It pins releases of @noble that this project is ahead of, so it is no dependency: install it anywhere
 * (`npm install ts-mls@1.6.4` in an empty folder) and name that: `TS_MLS=/folder/node_modules/ts-mls npm run bench -- group-keys`.
 *
 * Last answer (2 cores shared with other work; ratios count): see protocol/README.md §6.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { encodeGroupKey, openGroupKey } from '../protocol/group/group-key.ts'
import { nextStatement, type SignedStatement } from '../protocol/group/statement.ts'
import { type Eid, eid } from '../protocol/identity/eid.ts'
import { nodeCrypto } from '../src/crypto/node-crypto.ts'
import { systemRandom } from '../src/platform/random.ts'

const SIZES = [3, 10, 50]
const ROUNDS = 30
/** header, counters, item head and tag of the record that carries one item */
const RECORD_BYTES = 24 + 56 + 15 + 16

interface Cost {
  /** all that the owner does, until every member's bytes are ready */
  ownerMs: number
  memberMs: number
  /** leaving the owner, for all members */
  bytes: number
}
type Row = { scheme: string; members: number; act: 'rekey' | 'remove' } & Cost

const rows: Row[] = []
for (const members of SIZES) rows.push(...sealed(members))
const mls = await loadMls()
if (mls !== undefined) for (const members of SIZES) rows.push(...(await byMls(mls, members)))
else console.log('ts-mls is not there: set TS_MLS to its folder to measure it as well')
console.table(rows.map(({ ownerMs, memberMs, ...row }) => ({ ...row, ownerMs: ownerMs.toFixed(2), memberMs: memberMs.toFixed(2) })))
const out = fileURLToPath(new URL('./out/', import.meta.url))
mkdirSync(out, { recursive: true })
writeFileSync(
  `${out}group-keys.json`,
  `${JSON.stringify({ id: 'group-keys', node: process.version, rounds: ROUNDS, rows }, undefined, 2)}\n`
)

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] as number
}

function timed<T>(samples: number[], work: () => T): T {
  const startedMs = performance.now()
  const result = work()
  samples.push(performance.now() - startedMs)
  return result
}

/** One statement, signed, and the same item sealed for each member under its session's keys. */
function sealed(count: number): Row[] {
  const seeds = Array.from({ length: count }, () => systemRandom.bytes(32))
  const eids = seeds.map((seed) => eid(nodeCrypto.ed25519.publicKey(seed)))
  const signer = { publicKey: eids[0] as Eid, sign: (message: Uint8Array) => nodeCrypto.ed25519.sign(seeds[0] as Uint8Array, message) }
  const ciphers = eids.map(() => nodeCrypto.aead.keyed(systemRandom.bytes(32)))
  const nothing = new Uint8Array(0)
  return (['rekey', 'remove'] as const).map((act) => {
    const [owner, member]: [number[], number[]] = [[], []]
    let bytes = 0
    for (let round = 0; round < ROUNDS; round++) {
      const next = (before: SignedStatement | { gid: Uint8Array; name: string }, change: Parameters<typeof nextStatement>[3]) => {
        const dgk = systemRandom.bytes(32)
        return { statement: nextStatement(nodeCrypto, signer, before, change, { dgk, tsSec: 1_800_000_000 }), dgk }
      }
      const first = next({ gid: systemRandom.bytes(16), name: 'bench' }, { add: eids.slice(1) })
      const nonce = systemRandom.bytes(12)
      const stay = act === 'remove' ? count - 1 : count
      const items = timed(owner, () => {
        const key = next(first.statement, act === 'remove' ? { remove: [eids[count - 1] as Eid] } : {})
        return ciphers.slice(1, stay).map((cipher) => cipher.seal(nonce, nothing, encodeGroupKey(key)))
      })
      bytes = items.reduce((sum, item) => sum + item.length - 16 + RECORD_BYTES, 0)
      timed(member, () => openGroupKey(nodeCrypto, ciphers[1]?.open(nonce, nothing, items[0] as Uint8Array) as Uint8Array))
    }
    return { scheme: 'sealed', members: count, act, ownerMs: median(owner), memberMs: median(member), bytes }
  })
}

// biome-ignore lint/suspicious/noExplicitAny: the package is not installed here, so neither are its types
type Mls = any

async function loadMls(): Promise<Mls | undefined> {
  const folder = process.env.TS_MLS
  if (folder === undefined) return undefined
  const { exports, main } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const entry = exports?.['.']?.import?.default ?? exports?.['.']?.import ?? exports?.['.']?.default ?? exports?.['.'] ?? main
  return await import(pathToFileURL(join(folder, entry)).href)
}

/** One commit with a new path, the same bytes for every member; each processes it. */
async function byMls(m: Mls, count: number): Promise<Row[]> {
  const suite = await m.getCiphersuiteImpl(m.getCiphersuiteFromName('MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519'))
  const packages = []
  for (let i = 0; i < count; i++) {
    const credential = { credentialType: 'basic', identity: systemRandom.bytes(32) }
    packages.push(await m.generateKeyPackage(credential, m.defaultCapabilities(), m.defaultLifetime, [], suite))
  }
  let owner = await m.createGroup(systemRandom.bytes(16), packages[0].publicPackage, packages[0].privatePackage, [], suite)
  const extraProposals = packages.slice(1).map((one: Mls) => ({ proposalType: 'add', add: { keyPackage: one.publicPackage } }))
  const added = await m.createCommit({ state: owner, cipherSuite: suite }, { extraProposals })
  owner = added.newState
  let member = await m.joinGroup(
    added.welcome,
    packages[1].publicPackage,
    packages[1].privatePackage,
    m.emptyPskIndex,
    suite,
    owner.ratchetTree
  )
  const rows: Row[] = []
  for (const act of ['rekey', 'remove'] as const) {
    const [owners, members]: [number[], number[]] = [[], []]
    let bytes = 0
    for (let round = 0; round < ROUNDS; round++) {
      const proposals = act === 'remove' ? [{ proposalType: 'remove', remove: { removed: count - 1 } }] : []
      const ownerMs = performance.now()
      const commit = await m.createCommit({ state: owner, cipherSuite: suite }, { extraProposals: proposals })
      const message = m.encodeMlsMessage(commit.commit)
      owners.push(performance.now() - ownerMs)
      const memberMs = performance.now()
      const [decoded] = m.decodeMlsMessage(message, 0)
      const processed = await m.processPrivateMessage(member, decoded.privateMessage, m.emptyPskIndex, suite)
      members.push(performance.now() - memberMs)
      bytes = (message.length + RECORD_BYTES) * (act === 'remove' ? count - 2 : count - 1)
      if (act === 'remove') continue // the same removal again, from the same state
      owner = commit.newState
      member = processed.newState
    }
    rows.push({ scheme: 'MLS', members: count, act, ownerMs: median(owners), memberMs: median(members), bytes })
  }
  return rows
}
