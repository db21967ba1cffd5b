import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'
import { references } from '../../scripts/docs-generate.ts'

const ROOT = join(import.meta.dirname, '../..')

/** Every Markdown file that a reader may open. */
function documents(): string[] {
  const out = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'AGENTS.md', 'protocol/README.md']
  const visit = (folder: string) => {
    for (const entry of readdirSync(join(ROOT, folder), { withFileTypes: true })) {
      const path = `${folder}/${entry.name}`
      if (entry.isDirectory()) visit(path)
      else if (entry.name.endsWith('.md')) out.push(path)
    }
  }
  for (const folder of ['docs', 'examples', 'packaging']) visit(folder)
  return out
}

const withoutCode = (text: string) => text.replaceAll(/^```[\s\S]*?^```/gm, '').replaceAll(/`[^`\n]*`/g, '')

/** The anchors of a document's headings, as they are made for a page on the web. */
function anchors(text: string): Set<string> {
  const out = new Set<string>()
  const seen = new Map<string, number>()
  for (const [, title = ''] of text.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/^#{1,6} +(.+)$/gm)) {
    const slug = title
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(' ', '-')
    const times = seen.get(slug) ?? 0
    seen.set(slug, times + 1)
    out.add(times === 0 ? slug : `${slug}-${times}`)
  }
  return out
}

describe('the documents', () => {
  it.each([...references()])('docs/reference/%s is what `npm run docs:generate` makes', (name, text) => {
    expect(readFileSync(join(ROOT, 'docs/reference', name), 'utf8')).toBe(text)
  })

  it.each(documents())('%s has links that lead somewhere, to the heading that they name', (name) => {
    const text = readFileSync(join(ROOT, name), 'utf8')
    const broken: string[] = []
    for (const [, target = ''] of withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      const [path = '', anchor] = target.split('#')
      const file = path === '' ? join(ROOT, name) : join(ROOT, dirname(name), path)
      if (!existsSync(file)) broken.push(`${target}: there is no ${relative(ROOT, file)}`)
      else if (anchor !== undefined && file.endsWith('.md') && !anchors(readFileSync(file, 'utf8')).has(anchor)) {
        broken.push(`${target}: no such heading`)
      }
    }
    expect(broken).toEqual([])
  })

  it('docs/README.md leads to every document', () => {
    const index = readFileSync(join(ROOT, 'docs/README.md'), 'utf8')
    const missing = documents().filter(
      (name) => name.startsWith('docs/') && name !== 'docs/README.md' && !index.includes(`](${name.slice(5)}`)
    )
    expect(missing).toEqual([])
  })

  it('docs/threat-model.md numbers its rows once, and each names tests that there are, by file and words of a title', () => {
    const rows = [...readFileSync(join(ROOT, 'docs/threat-model.md'), 'utf8').matchAll(/^\| (T-\d\d) \|.*\| (`[^|]+) \|$/gm)]
    const ids = rows.map(([, id]) => id)
    expect(ids.length).toBeGreaterThan(60)
    expect(ids).toEqual(ids.map((_, i) => `T-${String(i + 1).padStart(2, '0')}`))
    const missing = rows.flatMap(([, id, tests = '']) => {
      const named = tests.split('; ').map((test) => /^`([^`]+)` › (.+)$/.exec(test))
      return named.flatMap((match) =>
        match !== null && hasTest(fileOf(match[1] as string), match[2] as string) ? [] : [`${id} ${match?.[0] ?? tests}`]
      )
    })
    expect(missing).toEqual([])
  })
})

function fileOf(place: string): string {
  if (place.startsWith('protocol: ')) return join(ROOT, place.replace('protocol: ', 'protocol/'))
  return join(ROOT, place.startsWith('sim/') ? place : `test/${place}`)
}

/** Whether a test of the file has these words in its title, not somewhere else in it. */
function hasTest(file: string, words: string): boolean {
  if (!existsSync(file)) return false
  const titles = readFileSync(file, 'utf8').matchAll(/^\s*it\b[^'"`\n]*(?:\n\s*)?(['"`])((?:\\.|(?!\1).)*)\1/gm)
  return [...titles].some(([, , title = '']) => title.replaceAll('\\', '').includes(words))
}
