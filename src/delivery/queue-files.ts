import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeObject } from '../../protocol/delivery/object.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { eidToDid } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import { makePrivateDir } from '../platform/files.ts'
import type { DrainableQueue, QueueRecord } from './asleep-queue.ts'

/** A reference shorter than this names nothing: it could mean another record tomorrow. */
const REFERENCE_CHARS_MIN = 4

/** What can be told of a queued record without its key: names, times and sizes, never what it carries (OD-50). */
export interface QueueRecordView {
  key: string
  kind: QueueRecord['kind']
  objectId: string
  issuer: string
  principal: string
  bytes: number
  enqueuedAtMs: number
  expiresAtMs: number
  purpose?: string
  issuedAtMs?: number
  endsAtMs?: number
  /** which mailbox key it is sealed to, and whether that is still held */
  kid?: string
  opens?: boolean
}

export function recordView(agent: LocalAgent, record: QueueRecord): QueueRecordView {
  const { key, kind, objectId, principal, object, enqueuedAtMs, expiresAtMs } = record
  const view = { key, kind, objectId, issuer: '', principal, bytes: object.length, enqueuedAtMs, expiresAtMs }
  if (kind === 'opaque') return view
  try {
    const decoded = decodeObject(object, { bytesMax: object.length })
    const kid = Buffer.from(decoded.kid).toString('hex')
    return {
      ...view,
      issuer: eidToDid(decoded.issuer),
      purpose: decoded.purpose,
      issuedAtMs: decoded.issuedAtMs,
      endsAtMs: decoded.expiresAtMs,
      kid,
      opens: agent.mailboxSecret(kid) !== undefined
    }
  } catch (error) {
    if (error instanceof ProtocolError) return view
    throw error
  }
}

/**
 * The one record that a key, an object id or the beginning of one names.
 * @throws RookeryError `RECORD_UNKNOWN`, `RECORD_AMBIGUOUS`
 */
export async function findRecord(queue: DrainableQueue, agent: LocalAgent, reference: string): Promise<QueueRecord> {
  const found: QueueRecord[] = []
  for await (const record of queue.records(homeOf(agent))) {
    if (record.key === reference || record.objectId === reference) return record
    if (reference.length >= REFERENCE_CHARS_MIN && record.objectId.startsWith(reference)) found.push(record)
    if (found.length > 1) break
  }
  const [only, other] = found
  if (only !== undefined && other === undefined) return only
  const isKnown = only !== undefined
  throw new RookeryError(
    isKnown ? 'RECORD_AMBIGUOUS' : 'RECORD_UNKNOWN',
    isKnown
      ? `more than one queued object begins with ${reference}`
      : `nothing that waits for ${agent.name} is called ${reference.slice(0, 80)}`,
    {
      kind: isKnown ? 'usage' : 'notFound',
      field: 'object',
      value: reference.slice(0, 80),
      remedy: isKnown ? 'give more of its digits' : 'list them with `rookery queue list`'
    }
  )
}

export interface QueueExport {
  path: string
  records: number
  bytes: number
}

/**
 * Writes what waits for an agent, sealed as it is, into a file of the owner's own data directory (OD-50): one JSON object a line, the object in base64.
 * @throws RookeryError `DATA_DIR_UNUSABLE`, `EXPORT_WITHOUT_DIR`
 */
export async function exportQueue(
  queue: DrainableQueue,
  agent: LocalAgent,
  { dataDir, nowMs }: { dataDir: string | undefined; nowMs: number }
): Promise<QueueExport> {
  if (dataDir === undefined) {
    throw new RookeryError('EXPORT_WITHOUT_DIR', 'this node has no data directory to export to', { kind: 'config', field: 'dataDir' })
  }
  const folder = join(dataDir, 'exports')
  makePrivateDir(folder)
  const stamp = new Date(nowMs).toISOString().replaceAll(/[:.]/g, '-')
  const path = join(folder, `queue-${agent.name}-${stamp}.ndjson`)
  const file = await open(path, 'wx', 0o600)
  let records = 0
  let bytes = 0
  try {
    for await (const record of queue.records(homeOf(agent))) {
      records++
      bytes += record.object.length
      const line = { ...recordView(agent, record), object: Buffer.from(record.object).toString('base64') }
      await file.appendFile(`${JSON.stringify(line)}\n`)
    }
    await file.sync()
  } finally {
    await file.close()
  }
  return { path, records, bytes }
}
