import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, it } from 'vitest'
import { describeInBrowser, launchChromium } from '../support/chromium.ts'

const SERVE = join(import.meta.dirname, '..', '..', 'examples', 'browser', 'serve.ts')

describeInBrowser('the example page', () => {
  it('is served by one command, finds the agent, and shows what it answers', async () => {
    const child = spawn(process.execPath, [SERVE], { stdio: ['ignore', 'pipe', 'inherit'] })
    const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
    const browser = await launchChromium()
    try {
      const line = await new Promise<string>((resolve) => createInterface({ input: child.stdout }).once('line', resolve))
      const url = /http:\/\/\S+/.exec(line)?.[0] as string
      const page = await browser.context.newPage()
      page.setDefaultTimeout(90_000)
      const blocked: string[] = []
      page.on('console', (message) => {
        if (/Content Security Policy|Trusted/i.test(message.text())) blocked.push(message.text())
      })
      await page.goto(url)
      await page.getByRole('button', { name: 'Send' }).click()
      await page.getByRole('status').filter({ hasText: 'hello from a page' }).waitFor()
      expect(await page.locator('#did').textContent()).toMatch(/^did:key:z/)
      expect(await page.locator('#state').textContent()).toBe('joined')
      expect(blocked).toEqual([])
    } finally {
      await browser.close()
      child.kill('SIGTERM')
    }
    expect(await exited).toBe(0)
  })
})
