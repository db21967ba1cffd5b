import { describe, expect, it } from 'vitest'
import { docSteps, unlikeShown } from '../support/doc-blocks.ts'

describe('the reader of documents', () => {
  it('takes commands and what is said that they print, and leaves blocks with another purpose', () => {
    const text = '# A\n\n```sh install\nnpm i\n```\n\n```sh\necho a\n```\n\n```text\na\n```\n\n```yaml\nx: 1\n```\n\n```sh\ntrue\n```\n'
    expect(docSteps(text)).toEqual([
      { commands: 'echo a', line: 7, prints: 'a' },
      { commands: 'true', line: 19 }
    ])
  })

  it('finds what was promised and not printed, and what was printed and not promised', () => {
    expect(unlikeShown('a … c\n…\nlast', 'a  bb   c\n1\n2\nlast\n')).toBeUndefined()
    expect(unlikeShown('a\nb', 'a\nc\n')).toBe('b')
    expect(unlikeShown('a', 'a\nb\n')).toBe('nothing more, but it printed: b')
    expect(unlikeShown('…', 'a\nb\n')).toBeUndefined()
    expect(unlikeShown('…\nz', 'a\nb\n')).toBe('z')
    expect(unlikeShown('1+1 (a)', '1+1 (a)')).toBeUndefined()
  })
})
