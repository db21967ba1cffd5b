import type { Eid } from '../../protocol/identity/eid.ts'
import type { EseValue } from '../../protocol/state/batch.ts'
import { RookeryError } from '../errors.ts'
import type { SchemaOf } from '../state/standard-schema.ts'
import { checked, type InputAt, type KeyOf, type ValueAt } from '../state/typed.ts'
import type { Group } from './groups.ts'

/** What the members say under one key: values that the schema takes, and by whom it is broken. Both by DID. */
export interface Everyones<T> {
  values: Map<string, T>
  invalid: Map<string, RookeryError>
}

/**
 * A group whose values are checked by a Standard Schema (zod, valibot …): one for every key, or one a key. What another member wrote is checked when
 * it is read, what this agent writes before it leaves.
 */
export class TypedGroup<S extends SchemaOf> {
  readonly #group: Group
  readonly #schema: S

  constructor(group: Group, schema: S) {
    this.#group = group
    this.#schema = schema
  }

  /** A member's value: of this agent itself without `of`. @throws RookeryError `ESE_SCHEMA` naming the key and what is wrong */
  async get<K extends KeyOf<S>>(key: K, of?: Eid): Promise<ValueAt<S, K> | undefined> {
    const value = this.#group.get(key, of)
    return value === undefined ? undefined : ((await checked(this.#schema, key, value)) as ValueAt<S, K>)
  }

  /** One member's wrong value hides nobody else's. @throws RookeryError `ESE_SCHEMA` where no schema speaks of the key */
  async everyones<K extends KeyOf<S>>(key: K): Promise<Everyones<ValueAt<S, K>>> {
    const told: Everyones<ValueAt<S, K>> = { values: new Map(), invalid: new Map() }
    for (const [did, value] of this.#group.everyones(key)) {
      try {
        told.values.set(did, (await checked(this.#schema, key, value)) as ValueAt<S, K>)
      } catch (error) {
        if (!(error instanceof RookeryError) || error.data?.issues === undefined) throw error // no schema for the key
        told.invalid.set(did, error)
      }
    }
    return told
  }

  /** What the schema refuses never leaves. @throws RookeryError `ESE_SCHEMA`; as {@link Group.set} */
  async set<K extends KeyOf<S>>(key: K, value: InputAt<S, K>, options?: { signal?: AbortSignal }): Promise<void> {
    await checked(this.#schema, key, value)
    await this.#group.set(key, value as EseValue, options)
  }

  delete(key: KeyOf<S>, options?: { signal?: AbortSignal }): Promise<void> {
    return this.#group.delete(key, options)
  }
}
