import { z } from 'zod'
import { configSchema } from './schema.ts'

/** One setting that holds a value, as opposed to a group of them. */
export interface Setting {
  /** names from the outside in: `['http', 'port']` */
  readonly path: readonly string[]
  /** `http.port` */
  readonly name: string
  /** `ROOKERY_HTTP_PORT` */
  readonly variable: string
  readonly kind: 'text' | 'number' | 'boolean' | 'list' | 'map'
}

export function unwrapped(schema: z.ZodType): z.ZodType {
  let at: z.ZodType = schema
  while (at instanceof z.ZodDefault || at instanceof z.ZodOptional || at instanceof z.ZodPrefault || at instanceof z.ZodPipe) {
    at = (at instanceof z.ZodPipe ? at.in : at.unwrap()) as z.ZodType
  }
  return at
}

/** All settings in the order of the schema; the data directory is none, as it is where the settings lie. */
export function listSettings(): Setting[] {
  const out: Setting[] = []
  const visit = (schema: z.ZodType, path: string[]) => {
    const inner = unwrapped(schema)
    if (inner instanceof z.ZodObject) {
      for (const [key, child] of Object.entries(inner.shape)) visit(child as z.ZodType, [...path, key])
      return
    }
    const name = path.map((part) => part.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()).join('_')
    out.push({ path, name: path.join('.'), variable: `ROOKERY_${name}`, kind: kindOf(inner) })
  }
  visit(configSchema, [])
  return out.filter(({ name }) => name !== 'dataDir')
}

function kindOf(inner: z.ZodType): Setting['kind'] {
  if (inner instanceof z.ZodArray) return 'list'
  if (inner instanceof z.ZodRecord) return 'map'
  if (inner instanceof z.ZodNumber) return 'number'
  return inner instanceof z.ZodBoolean ? 'boolean' : 'text'
}

/** Names of the settings in the group at `path`; none where that is no group. */
export function knownNames(path: readonly PropertyKey[]): string[] {
  let at: z.ZodType = configSchema
  for (const part of path) {
    const inner = unwrapped(at)
    if (!(inner instanceof z.ZodObject)) return []
    at = inner.shape[String(part)] as z.ZodType
  }
  const inner = unwrapped(at)
  return inner instanceof z.ZodObject ? Object.keys(inner.shape).filter((name) => name !== 'dataDir') : []
}
