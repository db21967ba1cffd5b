import { isMap, isScalar, LineCounter, parseDocument } from 'yaml'
import type { z } from 'zod'
import { firstIssue } from '../../src/api/methods.ts'
import { RookeryError } from '../../src/errors.ts'
import { type Definition, definitionSchema } from './definition.ts'
import { checkReferences } from './references.ts'

export const SCENARIO_BYTES_MAX = 1_048_576

type Path = readonly PropertyKey[]

/**
 * A scenario from the text of its file.
 * @param file - its name, for errors
 * @throws RookeryError `SCENARIO_INVALID`: `field` is `file:line:column`, `data` has line, column and the path inside the file
 */
export function parseScenario(text: string, file: string): Definition {
  if (text.length > SCENARIO_BYTES_MAX) throw invalid(file, { line: 1, col: 1 }, `a scenario has at most ${SCENARIO_BYTES_MAX} bytes`)
  const lines = new LineCounter()
  const doc = parseDocument(text, { lineCounter: lines, uniqueKeys: true })
  const fault = doc.errors[0]
  if (fault !== undefined) {
    throw invalid(file, lines.linePos(fault.pos[0]), fault.message.split('\n')[0]?.replace(/ at line .*$/, '') ?? 'is no YAML')
  }
  let value: unknown
  try {
    value = doc.toJS({ maxAliasCount: 0 })
  } catch (cause) {
    throw invalid(file, { line: 1, col: 1 }, 'aliases are not supported here: write the value out', { cause })
  }
  const place = (path: Path) => {
    for (let length = path.length; length > 0; length--) {
      const parent = length === 1 ? doc.contents : (doc.getIn(path.slice(0, length - 1), true) as unknown)
      const last = path[length - 1]
      if (isMap(parent)) {
        const pair = parent.items.find((item) => isScalar(item.key) && item.key.value === last)
        if (pair !== undefined && isScalar(pair.key)) return lines.linePos(pair.key.range?.[0] ?? 0)
      } else {
        const node = doc.getIn(path.slice(0, length), true) as { range?: [number, number, number] } | undefined
        if (node?.range !== undefined) return lines.linePos(node.range[0])
      }
    }
    return { line: 1, col: 1 }
  }
  const parsed = definitionSchema.safeParse(value)
  if (!parsed.success) {
    const issue = innermost(parsed.error.issues[0] as z.core.$ZodIssue, value)
    const { field, message } = firstIssue({ issues: [issue] } as z.ZodError, value)
    const path = issue.code === 'unrecognized_keys' ? [...issue.path, issue.keys[0] ?? ''] : issue.path
    throw invalid(file, place(path), `${field === '' ? 'the scenario' : field} ${message}`, { path: field })
  }
  const wrong = checkReferences(parsed.data)
  if (wrong !== undefined) throw invalid(file, place(wrong.path), wrong.message, { path: wrong.path.join('.') })
  return parsed.data
}

/** Of a choice the branch that was meant: of steps the one with the same shape, else the one with the fewest complaints. */
function innermost(issue: z.core.$ZodIssue, root: unknown): z.core.$ZodIssue {
  if (issue.code !== 'invalid_union' || issue.errors.length === 0) return issue
  let value: unknown = root
  for (const part of issue.path) value = (value as Record<PropertyKey, unknown> | undefined)?.[part]
  const isStage = typeof value === 'object' && value !== null && 'stage' in value
  const cost = (errors: readonly z.core.$ZodIssue[], at: number) => {
    if (isStage) return at
    const isOtherShape = errors.some(({ code, path }) => path.length === 0 && (code === 'invalid_type' || code === 'unrecognized_keys'))
    return errors.length + (isOtherShape ? 100 : 0)
  }
  const [best] = [...issue.errors.entries()].sort(([i, a], [j, b]) => cost(a, i) - cost(b, j))
  const inner = best?.[1][0]
  return inner === undefined ? issue : innermost({ ...inner, path: [...issue.path, ...inner.path] } as z.core.$ZodIssue, root)
}

function invalid(
  file: string,
  { line, col }: { line: number; col: number },
  what: string,
  { path, cause }: { path?: string; cause?: unknown } = {}
): RookeryError {
  return new RookeryError('SCENARIO_INVALID', `${file}, line ${line}, column ${col}: ${what}`, {
    kind: 'config',
    field: `${file}:${line}:${col}`,
    remedy: 'mend the file at that place; `rookery sim schema` writes the schema for editors',
    data: { file, line, column: col, ...(path === undefined ? {} : { path }) },
    ...(cause === undefined ? {} : { cause })
  })
}
