import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const root = new URL('../..', import.meta.url)
const { scripts } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { scripts: Record<string, string> }
/** The files behind our own npm scripts that test, measure or picture. */
const files = Object.entries(scripts).flatMap(([name, command]) => {
  const file = /^node ((?:test|bench)\/\S+\.ts)$/.exec(command)?.[1]
  return file === undefined ? [] : [{ name, file }]
})

function run(file: string, ...args: string[]): Promise<{ code: unknown; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, ['--no-warnings', file, ...args], { cwd: root, timeout: 120_000 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : error.code, stdout, stderr })
    )
  })
}

describe('the npm scripts that test, measure or picture', () => {
  it('are there to be called wrongly', () => expect(files.length).toBeGreaterThanOrEqual(13))

  for (const { name, file } of files) {
    it(`npm run ${name} names an option that it does not know, tells how it is called, and ends with 2`, async () => {
      const { code, stdout, stderr } = await run(file, '--nope')
      expect(stderr).toContain('--nope')
      expect(stderr).toContain(`npm run ${name}`)
      expect(stderr).not.toMatch(/\n +at /)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    }, 180_000)
  }

  it('tell how they are called where they are asked, and end with 0', async () => {
    const { code, stdout, stderr } = await run('test/soak/groups.ts', '--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain('npm run soak:groups')
    const wrong = await run('test/soak/groups.ts', '--runs', 'many')
    expect(wrong.code).toBe(2)
    expect(wrong.stderr).toContain('--runs is a whole number from 1 on, not "many"')
  }, 180_000)
})
