/** The part of JSON Schema 2020-12 that the contract's schemas use. Every keyword here is obeyed; there are no others. */
export interface JsonSchema {
  readonly $schema?: string
  readonly $id?: string
  readonly title?: string
  readonly description?: string
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'boolean'
  readonly const?: string
  readonly enum?: readonly string[]
  readonly pattern?: string
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: JsonSchema
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: true
  readonly properties?: { readonly [name: string]: JsonSchema }
  readonly required?: readonly string[]
  readonly additionalProperties?: false
}

export interface Violation {
  /** path from the object, such as `sites[0].regions[1]`; empty for the object itself */
  field: string
  problem: string
}

export const VIOLATIONS_MAX = 16

/** Everything in `value` that `schema` does not allow, at most {@link VIOLATIONS_MAX}; empty: it holds. Never throws. */
export function violationsOf(schema: JsonSchema, value: unknown): Violation[] {
  const found: Violation[] = []
  check(schema, value, '', found)
  return found.slice(0, VIOLATIONS_MAX)
}

function check(schema: JsonSchema, value: unknown, field: string, found: Violation[]): void {
  const problem = problemOf(schema, value)
  if (problem !== undefined) found.push({ field, problem })
  else if (schema.type === 'array') checkItems(schema, value as unknown[], field, found)
  else if (schema.type === 'object') checkMembers(schema, value as object, field, found)
}

/** What is wrong with the value itself, whatever it holds. */
function problemOf(schema: JsonSchema, value: unknown): string | undefined {
  if (schema.const !== undefined && value !== schema.const) return `is not "${schema.const}"`
  if (schema.enum !== undefined && !schema.enum.includes(value as string)) return `is none of ${schema.enum.join(', ')}`
  switch (schema.type) {
    case 'string':
      return textProblem(schema, value)
    case 'integer':
      if (!Number.isSafeInteger(value)) return 'is not a whole number'
      if ((value as number) < (schema.minimum ?? -Infinity)) return `is below ${schema.minimum}`
      return (value as number) > (schema.maximum ?? Infinity) ? `is above ${schema.maximum}` : undefined
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'is neither true nor false'
    case 'array':
      return listProblem(schema, value)
    case 'object':
      return isPlainObject(value) ? undefined : 'is not an object'
    case undefined:
      return undefined
    default: {
      const unknown: never = schema.type
      throw new TypeError(`"${unknown}" is no type of these schemas`)
    }
  }
}

function textProblem({ maxLength = Infinity, pattern }: JsonSchema, value: unknown): string | undefined {
  if (typeof value !== 'string') return 'is not a text'
  if (value.length > maxLength) return `is longer than ${maxLength} characters`
  return pattern !== undefined && !new RegExp(pattern, 'u').test(value) ? `does not have the form ${pattern}` : undefined
}

function listProblem({ minItems = 0, maxItems = Infinity }: JsonSchema, value: unknown): string | undefined {
  if (!Array.isArray(value)) return 'is not a list'
  if (value.length < minItems) return `has fewer than ${minItems} entries`
  return value.length > maxItems ? `has more than ${maxItems} entries` : undefined
}

function checkItems({ items = {}, uniqueItems }: JsonSchema, list: readonly unknown[], field: string, found: Violation[]): void {
  const before = found.length
  for (let i = 0; i < list.length; i++) check(items, list[i], `${field}[${i}]`, found)
  // Compared only once each item is known to be what it should, and so no deeper than the schema.
  if (uniqueItems && found.length === before && new Set(list.map(sortedText)).size < list.length) {
    found.push({ field, problem: 'names one thing twice' })
  }
}

function isPlainObject(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const kind = Object.getPrototypeOf(value)
  return kind === Object.prototype || kind === null
}

/** One text for values that differ in the order of members alone. */
function sortedText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortedText).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? ''
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${sortedText(member)}`).join()}}`
}

function checkMembers(
  { properties = {}, required = [], additionalProperties }: JsonSchema,
  value: object,
  field: string,
  found: Violation[]
): void {
  const at = (name: string) => (field === '' ? name : `${field}.${name}`)
  for (const name of required) if (!Object.hasOwn(value, name)) found.push({ field: at(name), problem: 'is missing' })
  for (const [name, member] of Object.entries(value)) {
    if (found.length >= VIOLATIONS_MAX) return
    const known = Object.hasOwn(properties, name) ? properties[name] : undefined
    if (known !== undefined) check(known, member, at(name), found)
    else if (additionalProperties === false) found.push({ field: at(name.slice(0, 64)), problem: 'is not known here' })
  }
}
