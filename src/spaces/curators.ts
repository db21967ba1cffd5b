import { equals, fromHex, toHex } from '../../protocol/bytes.ts'
import type { DsId } from '../../protocol/discovery/names.ts'
import { type Eid, eid } from '../../protocol/identity/eid.ts'
import { type AnnounceRecord, isHandover } from '../../protocol/records/announce.ts'
import { jsonCodec, type Store, type Table } from '../store/store.ts'

/** One curator's announcement of a space, with how many registrars hold it. */
export interface Candidate {
  record: AnnounceRecord
  replicas: number
  /** no registrar has it: it is what the DHT holds */
  source?: 'dht'
}

export type CuratorChoice =
  | { kind: 'none'; moved?: { curator: Eid; version: number } }
  | { kind: 'chosen'; candidate: Candidate; contested: boolean }
  | { kind: 'tie'; candidates: Candidate[] }

/** A chain of hand-overs longer than this is not followed. */
const HANDOVERS_MAX = 8

/**
 * Whom to follow (protocol/README.md §3): the pinned curator, else the one remembered, both along `next`/`prev` pairs; else the only one alive; else
 * the one that most replicas hold, told as contested.
 * @param candidates - the verified announcements of one DS_ID, one a curator, tombstones too
 */
export function chooseCurator(
  candidates: readonly Candidate[],
  known: { pin?: Eid | undefined; remembered?: Eid | undefined }
): CuratorChoice {
  const start = known.pin ?? known.remembered
  if (start !== undefined) return follow(candidates, start)
  const live = liveCandidates(candidates)
  const [first, second] = live
  if (first === undefined) return { kind: 'none', ...moved(candidates) }
  if (second === undefined) return { kind: 'chosen', candidate: first, contested: false }
  if (second.replicas === first.replicas) return { kind: 'tie', candidates: live.filter((one) => one.replicas === first.replicas) }
  return { kind: 'chosen', candidate: first, contested: true }
}

/** Those neither withdrawn nor handed over, the one that most registrars hold first. */
export function liveCandidates(candidates: readonly Candidate[]): Candidate[] {
  return candidates
    .filter((one) => one.record.payload.gone !== true && !isHandedOver(one, candidates))
    .sort((a, b) => b.replicas - a.replicas)
}

function follow(candidates: readonly Candidate[], start: Eid): CuratorChoice {
  let at = candidates.find(({ record }) => equals(record.payload.curator, start))
  for (let steps = 0; at !== undefined && steps < HANDOVERS_MAX; steps++) {
    const from = at.record.payload
    const heir = candidates.find(({ record }) => record !== at?.record && isHandover(from, record.payload))
    if (heir === undefined) break
    at = heir
  }
  if (at === undefined) return { kind: 'none' }
  if (at.record.payload.gone === true) return { kind: 'none', ...moved([at]) }
  return { kind: 'chosen', candidate: at, contested: false }
}

/** True when another of them took the space over from this one, by both signatures. */
export function isHandedOver(one: Candidate, candidates: readonly Candidate[]): boolean {
  return candidates.some(({ record }) => record !== one.record && isHandover(one.record.payload, record.payload))
}

/**
 * Those from whom this one took the space over, the last first, at most eight, each once: their followers are its members until they have
 * joined again.
 */
export function predecessorsOf(one: AnnounceRecord, candidates: readonly Candidate[]): AnnounceRecord[] {
  const chain = [one]
  while (chain.length <= HANDOVERS_MAX) {
    const heir = chain.at(-1) as AnnounceRecord
    const before = candidates.find(({ record }) => !chain.includes(record) && isHandover(record.payload, heir.payload))
    if (before === undefined) break
    chain.push(before.record)
  }
  return chain.slice(1)
}

/** The later version that the last curator left a pointer to. */
function moved(candidates: readonly Candidate[]): { moved?: { curator: Eid; version: number } } {
  for (const { record } of candidates) {
    const { next, ver } = record.payload
    if (next !== undefined && next.ver > ver) return { moved: { curator: next.eid, version: next.ver } }
  }
  return {}
}

/** Spaces whose curator is kept; at the bound new ones are not remembered, and are chosen afresh each time. */
const REMEMBERED_MAX = 10_000

/** The first curator that this node accepted for each space, on disk (protocol/README.md §3). */
export class CuratorMemory {
  readonly #store: Store
  readonly #table: Table<string>
  #count = 0

  private constructor(store: Store) {
    this.#store = store
    this.#table = store.table('space-curators', jsonCodec<string>())
  }

  static async open(store: Store): Promise<CuratorMemory> {
    const memory = new CuratorMemory(store)
    for await (const _ of memory.#table.keys({ limit: REMEMBERED_MAX })) memory.#count++
    return memory
  }

  async get(dsid: DsId): Promise<Eid | undefined> {
    const hex = await this.#table.get(toHex(dsid))
    return hex === undefined ? undefined : eid(fromHex(hex))
  }

  /** Keeps the first that is accepted; a later one changes nothing. */
  async remember(dsid: DsId, curator: Eid): Promise<void> {
    if (this.#count >= REMEMBERED_MAX || (await this.get(dsid)) !== undefined) return
    await this.replace(dsid, curator)
  }

  /** By the owner's word, or because the one remembered handed the space over. */
  async replace(dsid: DsId, curator: Eid): Promise<void> {
    const held = await this.get(dsid)
    if (held !== undefined && equals(held, curator)) return
    if (held === undefined) {
      if (this.#count >= REMEMBERED_MAX) return
      this.#count++
    }
    await this.#store.commit([this.#table.put(toHex(dsid), toHex(curator))])
  }

  /** The next one accepted is the first again. */
  async forget(dsid: DsId): Promise<void> {
    if ((await this.get(dsid)) === undefined) return
    this.#count--
    await this.#store.commit([this.#table.del(toHex(dsid))])
  }
}
