/**
 * Writes what each entry point of the package exports, with its types, to api/NAME.api.md: a change of the API then shows in a diff.
 * `npm run build && npm run api:update` writes the files; test/e2e/package.test.ts compares them with what is packed.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

const ROOT = join(import.meta.dirname, '..')

/** Entry points by name, from `exports` of package.json, with the sources that they are compiled from. */
export function entryPoints(): Map<string, string> {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    exports: Record<string, { types?: string } | string>
  }
  const entries = new Map<string, string>()
  for (const [name, target] of Object.entries(exports)) {
    if (typeof target === 'string' || target.types === undefined) continue
    entries.set(name === '.' ? 'rookery' : `rookery${name.slice(1)}`, target.types.replace('./dist/', '').replace(/\.d\.ts$/, '.ts'))
  }
  return entries
}

export const reportFile = (entry: string) => join(ROOT, 'api', `${entry.replaceAll('/', '-')}.api.md`)

const printer = ts.createPrinter({ removeComments: true })

/** One export's declarations, without their comments and bodies; in the order of the source for overloads. */
function textOf(symbol: ts.Symbol): string {
  const texts = (symbol.declarations ?? []).map((node) => {
    const whole = ts.isVariableDeclaration(node) ? node.parent.parent : node
    return printer.printNode(ts.EmitHint.Unspecified, whole, whole.getSourceFile())
  })
  return [...new Set(texts)].join('\n').replaceAll(/^export (declare )?/gm, '')
}

/**
 * The report of every entry point, by its name.
 * @param dist - folder with the declarations that `npm run build` writes
 */
export function apiReports(dist = join(ROOT, 'dist')): Map<string, string> {
  const entries = [...entryPoints()].map(([name, source]) => ({ name, file: join(dist, source.replace(/\.ts$/, '.d.ts')) }))
  const program = ts.createProgram(
    entries.map(({ file }) => file),
    {
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      noLib: true,
      types: [],
      skipLibCheck: true
    }
  )
  const checker = program.getTypeChecker()
  const reports = new Map<string, string>()
  for (const { name, file } of entries) {
    const source = program.getSourceFile(file)
    const module = source === undefined ? undefined : checker.getSymbolAtLocation(source)
    if (module === undefined) throw new Error(`${name} has no declarations at ${file}`)
    const rows = checker.getExportsOfModule(module).map((one) => {
      const symbol = one.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(one) : one
      return { name: one.name, text: textOf(symbol) }
    })
    rows.sort((a, b) => (a.name < b.name ? -1 : 1))
    const body = rows.map(({ text }) => text).join('\n\n')
    reports.set(
      name,
      `# ${name}\n\n${rows.length} exports. Made by \`npm run build && npm run api:update\`; a change here is a change of the API.\n\n\`\`\`ts\n${body}\n\`\`\`\n`
    )
  }
  return reports
}

if (import.meta.main) {
  mkdirSync(join(ROOT, 'api'), { recursive: true })
  for (const [name, text] of apiReports()) writeFileSync(reportFile(name), text)
}
