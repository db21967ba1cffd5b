/** One fenced block of a Markdown text. */
export interface DocBlock {
  /** the word after the fence, such as `sh` */
  language: string
  /** what stands behind it on the fence's line */
  info: string
  text: string
  /** of the fence, from 1 on */
  line: number
}

/** All fenced blocks, in order. */
export function docBlocks(markdown: string): DocBlock[] {
  const blocks: DocBlock[] = []
  let open: (DocBlock & { lines: string[] }) | undefined
  for (const [at, line] of markdown.split('\n').entries()) {
    const fence = /^```(\S*) ?(.*)$/.exec(line)
    if (open === undefined && fence !== null) {
      open = { language: fence[1] ?? '', info: fence[2] ?? '', text: '', line: at + 1, lines: [] }
    } else if (open !== undefined && line === '```') {
      const { lines, ...block } = open
      blocks.push({ ...block, text: lines.join('\n') })
      open = undefined
    } else open?.lines.push(line)
  }
  return blocks
}

/** Commands to run, and what the text says that they print. */
export interface DocStep {
  commands: string
  line: number
  /** absent: nothing is said of it */
  prints?: string
}

/** Every `sh` block with the `text` block that follows it; those with a word behind `sh` are run by somebody else. */
export function docSteps(markdown: string): DocStep[] {
  const blocks = docBlocks(markdown)
  return blocks.flatMap(({ language, info, text, line }, i) => {
    if (language !== 'sh' || info !== '') return []
    const next = blocks[i + 1]
    return [{ commands: text, line, ...(next?.language === 'text' ? { prints: next.text } : {}) }]
  })
}

const spaced = (line: string) => line.replaceAll(/\s+/g, ' ').trim()
const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')

/**
 * Whether a program printed what a document shows: `…` stands for anything in a line, alone on a line for any number of lines. Runs of spaces count as one.
 * @returns undefined, or the first line that was promised and did not come
 */
export function unlikeShown(shown: string, printed: string): string | undefined {
  const lines = printed.split('\n').map(spaced)
  while (lines.at(-1) === '') lines.pop()
  let at = 0
  let skip = false
  for (const promised of shown.split('\n').map(spaced)) {
    if (promised === '…') {
      skip = true
      continue
    }
    const pattern = new RegExp(`^${promised.split('…').map(escaped).join('.*')}$`)
    const found = skip ? lines.findIndex((line, i) => i >= at && pattern.test(line)) : pattern.test(lines[at] ?? '') ? at : -1
    if (found < 0) return promised
    at = found + 1
    skip = false
  }
  return skip || at === lines.length ? undefined : `nothing more, but it printed: ${lines[at]}`
}
