import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const SRC = fileURLToPath(new URL('../../src', import.meta.url))

function modules(folder: string): { name: string; text: string; code: string }[] {
  return readdirSync(join(SRC, folder))
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .map((name) => {
      const text = readFileSync(join(SRC, folder, name), 'utf8')
      return { name, text, code: text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '').replace(/'[^'\n]*'|`[^`]*`/g, "''") }
    })
}

const importsOf = (text: string) => [...text.matchAll(/from '([^']+)'/g)].map(([, from]) => from as string)

describe('where work may be written', () => {
  it('[TD-13] no A2A module opens a table or commits: they reach the store through Todos alone', () => {
    const a2a = modules('a2a')
    expect(a2a.length).toBeGreaterThan(8)
    for (const { name, text } of a2a) {
      // the type of an operation that a session hands over is no way to write
      const values = text.replace(/^import type .*$/gm, '')
      expect([name, importsOf(values).filter((from) => from.includes('/store/'))]).toEqual([name, []])
      expect([name, /\.commit\(|\.table\(/.test(text)]).toEqual([name, false])
    }
  })

  it('[TD-12] one function writes Todos, and every state change goes through it', () => {
    const writers = modules('tasks').filter(({ text }) => text.includes("table('todo', "))
    expect(writers.map(({ name }) => name)).toEqual(['todo-journal.ts'])
    expect(writers[0]?.text.match(/#rows\.put\(/g)).toHaveLength(1)
    const creators = modules('tasks').filter(({ text }) => text.includes('.add(begun'))
    expect(creators.map(({ name }) => name)).toEqual(['level-todos.ts'])
    expect(creators[0]?.text.match(/state: input\.approval/g)).toHaveLength(1)
  })

  it('[TD-16] [TD-17] no module below the edge knows a Task, nor the A2A side', () => {
    for (const folder of ['tasks', 'store', 'delivery']) {
      for (const { name, text, code } of modules(folder)) {
        expect([name, /\b(?:type|interface|class) Task\b|: Task\b|<Task\b/.test(code)]).toEqual([name, false])
        expect([name, importsOf(text).filter((from) => from.includes('@a2a-js') || from.includes('/a2a/'))]).toEqual([name, []])
      }
    }
  })

  it('uses neither the SDK’s own request handler nor its stores', () => {
    for (const { name, code } of modules('a2a')) {
      expect([name, /DefaultRequestHandler|InMemoryTaskStore|agentCardHandler/.test(code)]).toEqual([name, false])
    }
  })
})
