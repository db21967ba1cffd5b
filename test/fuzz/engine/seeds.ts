import { readdirSync, readFileSync } from 'node:fs'

const VECTORS = new URL('../../../protocol/vectors/', import.meta.url)

/** Everything in vector files that is bytes in hex, at any depth; `text` members too where they are asked for. */
export function vectorBytes(names: readonly string[], kind: 'hex' | 'text' = 'hex'): Uint8Array[] {
  const found = new Map<string, Uint8Array>()
  const look = (value: unknown, key: string): void => {
    if (typeof value === 'string') {
      if (kind === 'hex' && value.length % 2 === 0 && /^[0-9a-f]*$/.test(value)) found.set(value, new Uint8Array(Buffer.from(value, 'hex')))
      if (kind === 'text' && (key === 'text' || key === 'canonical')) found.set(value, new TextEncoder().encode(value))
    } else if (Array.isArray(value)) for (const one of value) look(one, key)
    else if (value !== null && typeof value === 'object') for (const [name, one] of Object.entries(value)) look(one, name)
  }
  for (const name of names) look(JSON.parse(readFileSync(new URL(`${name}.json`, VECTORS), 'utf8')), '')
  return [...found.values()]
}

export function allVectorNames(): string[] {
  return readdirSync(VECTORS)
    .filter((name) => name.endsWith('.json'))
    .map((name) => name.slice(0, -5))
}

export function text(value: string): Uint8Array {
  return new TextEncoder().encode(value)
}

export function json(value: unknown): Uint8Array {
  return text(JSON.stringify(value))
}
