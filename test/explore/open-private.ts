import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** `#name` becomes `__name` everywhere in a module, so that a state machine can be copied and compared as a whole. */
export function withoutPrivateNames(source: string): string {
  const file = ts.createSourceFile('module.ts', source, ts.ScriptTarget.ESNext, false, ts.ScriptKind.TS)
  const places: number[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isPrivateIdentifier(node)) places.push(node.getStart(file))
    ts.forEachChild(node, visit)
  }
  visit(file)
  let at = 0
  const parts: string[] = []
  for (const place of places) {
    parts.push(source.slice(at, place), '__')
    at = place + 1
  }
  return [...parts, source.slice(at)].join('')
}

/** Every module of protocol/ and of the tests that is loaded from here on has no private names. */
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context)
    if (!url.startsWith('file:') || loaded.format !== 'module-typescript' || loaded.source == null) return loaded
    const path = fileURLToPath(url)
    if (!path.startsWith(`${ROOT}protocol/`) && !path.startsWith(`${ROOT}test/`)) return loaded
    const source = typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source as Uint8Array)
    return { ...loaded, source: withoutPrivateNames(source) }
  }
})
