import type { Violation } from './json-schema.ts'
import {
  type Checked,
  type ExecutionReceipt,
  type ExecutionRejection,
  type ExecutionRequirements,
  readReceipt,
  readRejection,
  readRequirements
} from './objects.ts'
import { EDGE_CLOUD_CONTRACT_URIS } from './uris.ts'

/**
 * The value that a message or an artifact carries under either spelling of the URI.
 * @returns undefined for none; a violation where both spellings carry one, since only one can be meant
 */
export function contractMetadata(carrier: unknown): { value: unknown } | { violations: Violation[] } | undefined {
  const metadata = member(carrier, 'metadata')
  const given = EDGE_CLOUD_CONTRACT_URIS.filter((uri) => member(metadata, uri) !== undefined)
  const [uri] = given
  if (uri === undefined) return undefined
  if (given.length > 1) return { violations: [{ field: '', problem: 'stands under both spellings of the URI' }] }
  return { value: member(metadata, uri) }
}

/** The requirements of a request; undefined where it carries none. */
export function requirementsOf(message: unknown): Checked<ExecutionRequirements> | undefined {
  return read(message, readRequirements)
}

/** The receipt that came with a result: on one of its artifacts, or on the answering message. Several, or one that is none, are a fault. */
export function receiptIn(result: { artifacts: readonly unknown[] } | { message: unknown }): Checked<ExecutionReceipt> | undefined {
  const found = ('message' in result ? [result.message] : result.artifacts).flatMap((item) => read(item, readReceipt) ?? [])
  return found.length > 1 ? { ok: false, violations: [{ field: '', problem: 'comes more than once' }] } : found[0]
}

/** Why a task was rejected, from its status message. */
export function rejectionOf(statusMessage: unknown): Checked<ExecutionRejection> | undefined {
  return read(statusMessage, readRejection)
}

function read<T>(carrier: unknown, reader: (value: unknown) => Checked<T>): Checked<T> | undefined {
  const found = contractMetadata(carrier)
  if (found === undefined) return undefined
  return 'violations' in found ? { ok: false, violations: found.violations } : reader(found.value)
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
}
