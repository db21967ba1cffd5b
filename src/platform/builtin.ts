interface Builtins {
  'node:crypto': typeof import('node:crypto')
  'node:events': typeof import('node:events')
}

/** A module of Node where this is Node, undefined in a page: what runs in both asks here and imports none. */
export function nodeBuiltin<Name extends keyof Builtins>(name: Name): Builtins[Name] | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } }
  return process?.getBuiltinModule?.(name) as Builtins[Name] | undefined
}
