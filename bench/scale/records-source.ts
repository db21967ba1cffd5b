/** Signs the joins that records.ts puts, and measures the registrar from outside over QUIC, in a process of its own. */
import { sha256 } from '@noble/hashes/sha2.js'
import {
  decodeListResponse,
  decodePutResponse,
  encodeRegistryRequest,
  REGISTRY_PROTOCOL,
  REGISTRY_REQUEST_BYTES_MAX,
  REGISTRY_RESPONSE_BYTES_MAX,
  type RegistryRequest
} from '../../protocol/discovery/registry-messages.ts'
import { eid } from '../../protocol/identity/eid.ts'
import { buildRecord } from '../../protocol/records/envelope.ts'
import { JOIN_TTL_SEC, joinType } from '../../protocol/records/join.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { readFrame, writeFrame } from '../../src/net/frame.ts'
import type { PeerAddress } from '../../src/net/host.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { ours } from '../endpoints.ts'
import { serveChild } from './child.ts'
import { times } from './measurement.ts'

/** Records one after the other, and where each ends. Members change after a whole round of spaces, so that neighbours lie in different sets. */
export interface SignedBatch {
  bytes: Uint8Array
  ends: number[]
}

const PUTS = 100
const LISTS = 20
const PAGE = 100
/** beyond all that is put in bulk */
const SAMPLE_SPACE = 1_000_000

interface Member {
  publicKey: Uint8Array
  seed: Uint8Array
}
const members: Member[] = []
const curator = eid(nodeCrypto.ed25519.publicKey(systemRandom.bytes(32)))
let sampled = 0

export const spaceKey = (space: number) => sha256(new TextEncoder().encode(`space ${space}`))

function memberOf(index: number): Member {
  const seed = systemRandom.bytes(32)
  members[index] ??= { seed, publicKey: nodeCrypto.ed25519.publicKey(seed) }
  return members[index]
}

function joinOf(space: number, member: number): Uint8Array {
  const { publicKey, seed } = memberOf(member)
  const nowMs = Date.now()
  const ts = Math.floor(nowMs / 1_000)
  const payload = {
    dsid: spaceKey(space) as never,
    eid: eid(publicKey),
    curator,
    tags: ['energy', 'solar'],
    mode: 'always_on' as const,
    seq: nowMs,
    ts,
    exp: ts + JOIN_TTL_SEC
  }
  return buildRecord(nodeCrypto, joinType, payload, { publicKey, sign: (bytes) => nodeCrypto.ed25519.sign(seed, bytes) }).bytes
}

function sign({ from, count, spaces }: { from: number; count: number; spaces: number }): SignedBatch {
  const records = Array.from({ length: count }, (_, i) => joinOf((from + i) % spaces, Math.floor((from + i) / spaces)))
  const ends: number[] = []
  let end = 0
  for (const record of records) {
    end += record.length
    ends.push(end)
  }
  const bytes = new Uint8Array(end)
  for (const [i, record] of records.entries()) bytes.set(record, (ends[i] as number) - record.length)
  return { bytes, ends }
}

const host = (await ours([])).host

async function asked<T>(target: PeerAddress, request: RegistryRequest, decode: (bytes: Uint8Array) => T): Promise<T> {
  const stream = await host.openStream(target, REGISTRY_PROTOCOL)
  await writeFrame(stream, encodeRegistryRequest(request), REGISTRY_REQUEST_BYTES_MAX)
  await stream.closeWrite()
  const answer = decode(await readFrame(stream, REGISTRY_RESPONSE_BYTES_MAX))
  await stream.close()
  return answer
}

async function sample({ address }: { address: PeerAddress }): Promise<Record<string, number[]>> {
  const key = spaceKey(SAMPLE_SPACE + sampled++)
  const records = Array.from({ length: PUTS }, (_, i) => joinOf(SAMPLE_SPACE + sampled - 1, i))
  const put = await times(PUTS, async (i) => {
    const { status } = await asked(address, { verb: 'put', set: 'members', key, record: records[i] as Uint8Array }, decodePutResponse)
    if (status !== 'ok') throw new Error(`a put was answered ${status}`)
  })
  const list = await times(LISTS, async () => {
    const page = await asked(address, { verb: 'list', set: 'members', key, cursor: new Uint8Array(0), limit: PAGE }, decodeListResponse)
    if (page.records.length !== PUTS) throw new Error(`a page has ${page.records.length} records`)
  })
  return { put, 'page of 100': list }
}

serveChild({ sign, sample })
