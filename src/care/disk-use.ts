import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { AGENTS_DIR } from '../identity/agent-file.ts'
import { STORE_DIR } from '../store/open-store.ts'
import { type Store, tableOfKey } from '../store/store.ts'

/** What rows of the store are about, by the tables that hold them. */
const KINDS = {
  tasks: /^todo/,
  queue: /^asleep-/,
  outbox: /^(outbox|outgoing)$/,
  keeping: /^(keeper|kept)-/,
  replays: /^(replay|delivery-clock)/,
  sessions: /^session(?!-ese)/,
  state: /^(session-ese|groups)/,
  registry: /^registry-/,
  dht: /^dht-/,
  evidence: /^evidence-/,
  access: /^(grant|friend|push-config)$/,
  records: /^(own-|space-|former-|published-|faulty-)/,
  node: /^(meta|ports|net-peers|reachability|succession|page-identity)$/
} as const

export const STORE_KINDS = [...Object.keys(KINDS), 'other'] as const
export type StoreKind = keyof typeof KINDS | 'other'
export const FILE_KINDS = ['store', 'agents', 'keys', 'exports', 'other'] as const
export type FileKind = (typeof FILE_KINDS)[number]

export interface DiskUse {
  /** bytes of files in the data directory, by what they are */
  files: { kind: FileKind; bytes: number; count: number }[]
  /** what lies in the store; rows and bytes of keys and values, before compression */
  rows: { kind: StoreKind; rows: number; bytes: number }[]
  filesBytes: number
}

export function kindOfTable(table: string): StoreKind {
  for (const [kind, tables] of Object.entries(KINDS)) if (tables.test(table)) return kind as StoreKind
  return 'other'
}

/** Files below a data directory. Links are counted as links: nothing outside is looked at. */
export function filesByKind(dataDir: string): DiskUse['files'] {
  const found = new Map<FileKind, { bytes: number; count: number }>(FILE_KINDS.map((kind) => [kind, { bytes: 0, count: 0 }]))
  const visit = (path: string, kind: FileKind) => {
    const state = stateOf(path)
    if (state === undefined) return
    if (state.isDirectory()) {
      for (const name of namesIn(path)) visit(join(path, name), kind)
      return
    }
    const held = found.get(kind) as { bytes: number; count: number }
    held.bytes += state.size
    held.count++
  }
  for (const name of namesIn(dataDir)) visit(join(dataDir, name), kindOfFile(name))
  return [...found].map(([kind, { bytes, count }]) => ({ kind, bytes, count }))
}

function kindOfFile(name: string): FileKind {
  if (name === STORE_DIR) return 'store'
  if (name === AGENTS_DIR) return 'agents'
  if (/\.(key|keys)$|^node-key/.test(name)) return 'keys'
  return name === 'exports' ? 'exports' : 'other'
}

/** What LevelDB compacts away meanwhile is gone by the time it is looked at. */
function stateOf(path: string) {
  try {
    return lstatSync(path)
  } catch {
    return undefined
  }
}

function namesIn(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

const PROGRESS_EVERY = 50_000

/** Reads every row once: exact, and as slow as the store is big. */
export async function diskUse(
  { store, dataDir }: { store: Store; dataDir: string },
  { signal, onProgress }: { signal?: AbortSignal; onProgress?: (text: string) => void } = {}
): Promise<DiskUse> {
  const found = new Map<StoreKind, { rows: number; bytes: number }>()
  const kinds = new Map<string, StoreKind>()
  let rows = 0
  for await (const [key, value] of store.dump()) {
    if (++rows % PROGRESS_EVERY === 0) {
      onProgress?.(`${rows.toLocaleString('en')} rows`)
      signal?.throwIfAborted()
    }
    const table = tableOfKey(key)
    let kind = kinds.get(table)
    if (kind === undefined) {
      kind = kindOfTable(table)
      kinds.set(table, kind)
    }
    const held = found.get(kind) ?? { rows: 0, bytes: 0 }
    held.rows++
    held.bytes += key.length + value.length
    found.set(kind, held)
  }
  signal?.throwIfAborted()
  const files = filesByKind(dataDir)
  return {
    files,
    rows: [...found].map(([kind, counts]) => ({ kind, ...counts })).sort((a, b) => b.bytes - a.bytes),
    filesBytes: files.reduce((sum, { bytes }) => sum + bytes, 0)
  }
}

export interface CompactReport {
  /** bytes of the store's files */
  beforeBytes: number
  afterBytes: number
  kinds: { kind: StoreKind; beforeBytes: number; afterBytes: number }[]
}

/**
 * Has LevelDB rewrite its tables without what was deleted or replaced; the node goes on meanwhile. What was written last lies in LevelDB's log and is in no
 * size of a kind before it is written out.
 * @throws RookeryError `STORE_FULL`: no table was touched, or not this one and those after it
 */
export async function compactStore(
  { store, dataDir }: { store: Store; dataDir: string },
  { signal, onProgress }: { signal?: AbortSignal; onProgress?: (text: string) => void } = {}
): Promise<CompactReport> {
  const bytesOfStore = () => filesByKind(dataDir).find(({ kind }) => kind === 'store')?.bytes ?? 0
  const sizes = async () => {
    const byKind = new Map<StoreKind, number>()
    for (const table of await store.tables()) {
      const kind = kindOfTable(table)
      byKind.set(kind, (byKind.get(kind) ?? 0) + (await store.bytesOnDisk(table)))
    }
    return byKind
  }
  const beforeBytes = bytesOfStore()
  const before = await sizes()
  for (const table of await store.tables()) {
    signal?.throwIfAborted()
    onProgress?.(`compacting ${table}`)
    await store.compact(table)
  }
  const after = await sizes()
  const kinds = [...new Set([...before.keys(), ...after.keys()])].map((kind) => ({
    kind,
    beforeBytes: before.get(kind) ?? 0,
    afterBytes: after.get(kind) ?? 0
  }))
  return { beforeBytes, afterBytes: bytesOfStore(), kinds: kinds.sort((a, b) => b.beforeBytes - a.beforeBytes) }
}
