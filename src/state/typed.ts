import type { EseValue } from '../../protocol/state/batch.ts'
import { stateError } from './errors.ts'
import { type InputOf, isSchema, type OutputOf, type SchemaOf, type StandardSchema } from './standard-schema.ts'
import type { OwnState, State, WatchOptions } from './state.ts'
import type { StateEvent } from './watch.ts'

/** Keys that a schema speaks of: those of a record of schemas, or any. */
export type KeyOf<S extends SchemaOf> = S extends StandardSchema ? string : Extract<keyof S, string>
export type ValueAt<S extends SchemaOf, K extends string> = S extends StandardSchema
  ? OutputOf<S>
  : K extends keyof S
    ? OutputOf<S[K]>
    : never
export type InputAt<S extends SchemaOf, K extends string> = S extends StandardSchema
  ? InputOf<S>
  : K extends keyof S
    ? InputOf<S[K]>
    : never

/** As {@link StateEvent}; `invalid`: the peer wrote what the schema refuses. */
export type TypedEvent<S extends SchemaOf> =
  | { [K in KeyOf<S>]: { kind: 'set'; key: K; value: ValueAt<S, K> } }[KeyOf<S>]
  | Exclude<StateEvent<never>, { kind: 'set' }>
  | { kind: 'invalid'; key: string; issues: string[] }

/** A state whose values are checked when they are read: what a peer wrote is what a peer wrote. */
export class TypedState<S extends SchemaOf> {
  readonly #state: State
  protected readonly schema: S

  constructor(state: State, schema: S) {
    this.#state = state
    this.schema = schema
  }

  /** @throws RookeryError `ESE_SCHEMA` naming the key and what is wrong; as {@link State.get} */
  async get<K extends KeyOf<S>>(key: K): Promise<ValueAt<S, K> | undefined> {
    const value = this.#state.get(key)
    return value === undefined ? undefined : ((await checked(this.schema, key, value)) as ValueAt<S, K>)
  }

  /** Keys without a schema are not told. */
  async *watch(options: WatchOptions = {}): AsyncGenerator<TypedEvent<S>, void, undefined> {
    for await (const event of this.#state.watch(options)) {
      if (event.kind !== 'set') {
        yield event
        continue
      }
      const { key } = event
      const schema = schemaAt(this.schema, key)
      if (schema === undefined) continue
      const result = await schema['~standard'].validate(event.value)
      if (result.issues === undefined) yield { kind: 'set', key, value: result.value } as TypedEvent<S>
      else yield { kind: 'invalid', key, issues: issuesOf(result.issues) }
    }
  }
}

export class TypedOwnState<S extends SchemaOf> extends TypedState<S> {
  readonly #own: OwnState

  constructor(state: OwnState, schema: S) {
    super(state, schema)
    this.#own = state
  }

  /** Checked first: what the schema refuses never leaves. @throws RookeryError `ESE_SCHEMA`; as {@link OwnState} */
  async set<K extends KeyOf<S>>(key: K, value: InputAt<S, K>): Promise<void> {
    await checked(this.schema, key, value)
    await this.#own.set(key, value as EseValue)
  }

  delete(key: KeyOf<S>): Promise<void> {
    return this.#own.delete(key)
  }
}

function schemaAt(schema: SchemaOf, key: string): StandardSchema | undefined {
  if (isSchema(schema)) return schema
  return Object.hasOwn(schema, key) ? schema[key] : undefined
}

/** @throws RookeryError `ESE_SCHEMA` naming the key and what is wrong */
export async function checked(schemas: SchemaOf, key: string, value: unknown): Promise<unknown> {
  const schema = schemaAt(schemas, key)
  if (schema === undefined) {
    throw stateError('ESE_SCHEMA', `no schema is given for the key "${key}"`, {
      field: 'key',
      value: key,
      remedy: 'give one, or use a key that has one'
    })
  }
  const result = await schema['~standard'].validate(value)
  if (result.issues === undefined) return result.value
  const issues = issuesOf(result.issues)
  throw stateError('ESE_SCHEMA', `the value of "${key}" is not what the schema says: ${issues.join('; ')}`, {
    field: key,
    remedy: 'agree with the peer on the schema, or read it without one',
    data: { issues }
  })
}

function issuesOf(issues: readonly { message: string; path?: readonly (PropertyKey | { key: PropertyKey })[] | undefined }[]): string[] {
  return issues.map(({ message, path }) => {
    const at = path?.map((part) => String(typeof part === 'object' ? part.key : part)).join('.')
    return at === undefined || at === '' ? message : `${at}: ${message}`
  })
}
