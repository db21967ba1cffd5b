import { RookeryError } from '../errors.ts'
import { jsonCodec, type Store, type WriteOp } from './store.ts'

/** The layout of the store that this software writes. */
export const SCHEMA_VERSION = 1

/** One step from `from` to `from + 1`; its writes and the new number go out in one batch. */
export interface Migration {
  from: number
  note: string
  steps(store: Store): Promise<WriteOp[]>
}

/** Oldest first. Empty while there is only one layout. */
export const MIGRATIONS: readonly Migration[] = []

interface SchemaRecord {
  version: number
  /** software that wrote it, for people */
  by: string
}

/**
 * Brings the store to {@link SCHEMA_VERSION}; an empty store is marked with it. Changes nothing where it throws.
 * @throws RookeryError `SCHEMA_NEWER`, `SCHEMA_UNKNOWN`, `STORE_CORRUPT`
 */
export async function bringToSchema(
  store: Store,
  options: { software: string; version?: number; migrations?: readonly Migration[] }
): Promise<{ from: number | undefined; to: number }> {
  const target = options.version ?? SCHEMA_VERSION
  const migrations = options.migrations ?? MIGRATIONS
  const meta = store.table('meta', jsonCodec<SchemaRecord>())
  let held: SchemaRecord | undefined
  try {
    held = await meta.get('schema')
  } catch (cause) {
    throw new RookeryError('STORE_CORRUPT', 'the schema record of the store cannot be read', {
      kind: 'storage',
      cause,
      remedy: 'restore the data directory from a backup, or move its "store" folder away to start with an empty one (keys are kept)'
    })
  }
  if (held === undefined) {
    await store.commit([meta.put('schema', { version: target, by: options.software })])
    return { from: undefined, to: target }
  }
  if (!Number.isSafeInteger(held?.version) || held.version < 1) {
    throw new RookeryError('STORE_CORRUPT', 'the schema record of the store holds no version number', {
      kind: 'storage',
      value: held?.version,
      remedy: 'restore the data directory from a backup'
    })
  }
  if (held.version > target) {
    throw new RookeryError(
      'SCHEMA_NEWER',
      `the data directory was written by a newer Rookery (schema ${held.version}, this one knows ${target})`,
      {
        kind: 'storage',
        field: 'dataDir',
        value: held.version,
        remedy: `install the version that wrote it (${held.by}) or newer, or name another data directory; nothing was changed`
      }
    )
  }
  for (let version = held.version; version < target; version++) {
    const migration = migrations.find((one) => one.from === version)
    if (migration === undefined) {
      throw new RookeryError('SCHEMA_UNKNOWN', `there is no way from schema ${version} of the data directory to ${target}`, {
        kind: 'storage',
        field: 'dataDir',
        value: version,
        remedy: 'start it once with a version between the two; nothing was changed since the last step'
      })
    }
    const ops = await migration.steps(store)
    await store.commit([...ops, meta.put('schema', { version: version + 1, by: options.software })])
  }
  return { from: held.version, to: target }
}
