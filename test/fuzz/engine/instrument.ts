import ts from 'typescript'

/** Where the counters live while a target runs: one byte for each branch of the instrumented modules. */
export const EDGES_MAX = 1 << 17

interface Edit {
  readonly at: number
  /** at one place what ends comes before what begins */
  readonly order: 'end' | 'begin'
  readonly text: string
  readonly drop: number
}

export interface Instrumented {
  readonly source: string
  readonly counters: number
  /** short texts of the module: words for the mutators */
  readonly words: readonly string[]
}

const COUNTERS = '__fuzzEdges'
const COMPARE = '__fuzzCompare'

/**
 * Puts a counter into every branch of a TypeScript module, taken or not, and shows `===` and `!==` what they compare. Lines stay where they are.
 * @param first - number of the module's first counter
 */
export function instrument(source: string, first: number): Instrumented {
  const file = ts.createSourceFile('module.ts', source, ts.ScriptTarget.ESNext, true, ts.ScriptKind.TS)
  const edits: Edit[] = []
  const words = new Set<string>()
  let counters = 0
  const count = () => `${COUNTERS}[${first + counters++}]++`
  const put = (at: number, order: Edit['order'], text: string, drop = 0) => edits.push({ at, order, text, drop })

  const around = (node: ts.Node, before: string, after: string) => {
    put(node.getStart(file), 'begin', before)
    visit(node)
    put(node.getEnd(), 'end', after)
  }
  const expression = (node: ts.Expression) => around(node, `(${count()},`, ')')
  const statement = (node: ts.Statement) => {
    if (ts.isBlock(node)) block(node)
    else around(node, `{${count()};`, '}')
  }
  const block = (node: ts.Block) => {
    put(node.getStart(file) + 1, 'begin', `${count()};`)
    ts.forEachChild(node, visit)
  }

  function visit(node: ts.Node): void {
    if (ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node) || ts.isImportDeclaration(node)) return
    if (ts.isStringLiteral(node) && node.text.length > 1 && node.text.length <= 40) words.add(node.text)
    if (ts.isIfStatement(node)) {
      visit(node.expression)
      statement(node.thenStatement)
      if (node.elseStatement === undefined) put(node.getEnd(), 'end', ` else {${count()}}`)
      else if (ts.isIfStatement(node.elseStatement)) visit(node.elseStatement)
      else statement(node.elseStatement)
    } else if (ts.isConditionalExpression(node)) {
      visit(node.condition)
      expression(node.whenTrue)
      expression(node.whenFalse)
    } else if (ts.isBinaryExpression(node)) binary(node)
    else if (ts.isArrowFunction(node) && !ts.isBlock(node.body)) {
      node.parameters.forEach(visit)
      expression(node.body)
    } else if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined && ts.isBlock(node.body)) {
      node.parameters.forEach(visit)
      block(node.body)
    } else if (ts.isForStatement(node) || ts.isForOfStatement(node) || ts.isForInStatement(node) || ts.isWhileStatement(node)) {
      ts.forEachChild(node, (child) => (child === node.statement ? statement(node.statement) : visit(child)))
    } else if (ts.isCaseOrDefaultClause(node)) {
      if (ts.isCaseClause(node)) visit(node.expression)
      put(node.statements.pos, 'begin', ` ${count()};`)
      node.statements.forEach(visit)
    } else if (ts.isCatchClause(node)) block(node.block)
    else ts.forEachChild(node, visit)
  }

  function binary(node: ts.BinaryExpression): void {
    const operator = node.operatorToken.kind
    if (
      operator === ts.SyntaxKind.AmpersandAmpersandToken ||
      operator === ts.SyntaxKind.BarBarToken ||
      operator === ts.SyntaxKind.QuestionQuestionToken
    ) {
      visit(node.left)
      expression(node.right)
      return
    }
    const equal = operator === ts.SyntaxKind.EqualsEqualsEqualsToken
    const unequal = operator === ts.SyntaxKind.ExclamationEqualsEqualsToken
    if ((equal || unequal) && isTelling(node.left) && isTelling(node.right)) {
      put(node.getStart(file), 'begin', `${unequal ? '!' : ''}${COMPARE}(`)
      visit(node.left)
      put(node.operatorToken.getStart(file), 'begin', ',', 3)
      visit(node.right)
      put(node.getEnd(), 'end', ')')
      return
    }
    ts.forEachChild(node, visit)
  }

  visit(file)
  return { source: applied(source, edits), counters, words: [...words] }
}

/** Comparisons with `undefined`, `null`, truth and type names say nothing about the input's bytes. */
function isTelling(node: ts.Expression): boolean {
  return !(
    ts.isTypeOfExpression(node) ||
    node.kind === ts.SyntaxKind.NullKeyword ||
    node.kind === ts.SyntaxKind.TrueKeyword ||
    node.kind === ts.SyntaxKind.FalseKeyword ||
    (ts.isIdentifier(node) && node.text === 'undefined')
  )
}

function applied(source: string, edits: Edit[]): string {
  const inOrder = edits
    .map((edit, index) => ({ ...edit, index }))
    .sort((a, b) => a.at - b.at || (a.order === b.order ? a.index - b.index : a.order === 'end' ? -1 : 1))
  const parts = [`const ${COUNTERS}=globalThis.${COUNTERS},${COMPARE}=globalThis.${COMPARE};`]
  let at = 0
  for (const edit of inOrder) {
    parts.push(source.slice(at, edit.at), edit.text)
    at = edit.at + edit.drop
  }
  parts.push(source.slice(at))
  return parts.join('')
}
