import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { expect, it } from 'vitest'
import { withoutNode } from '../../packaging/browser/build.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { describeInBrowser, launchChromium } from '../support/chromium.ts'
import type * as LevelPage from '../support/level-page.ts'
import { servePages } from '../support/page-server.ts'

describeInBrowser('the store of a page', () => {
  it('reads back over IndexedDB what one in memory reads, in every range and direction, also after it was closed', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'rookery-level-'))
    await build({
      entryPoints: { level: join(import.meta.dirname, '..', 'support', 'level-page.ts') },
      outdir: folder,
      bundle: true,
      format: 'esm',
      platform: 'browser',
      plugins: [withoutNode],
      logLevel: 'warning'
    })
    writeFileSync(join(folder, 'level.html'), '<!doctype html><title>level</title><script type="module" src="/load.js"></script>')
    writeFileSync(join(folder, 'load.js'), "globalThis.level = await import('/level.js')")
    const server = await servePages([folder])
    const browser = await launchChromium()
    try {
      const page = await browser.context.newPage()
      await page.goto(`${server.url}level.html`)
      while (!(await page.evaluate(() => 'level' in globalThis))) await systemClock.sleep(20)
      for (const seed of [1, 2, 3]) {
        const seen = await page.evaluate(
          async (given) => await (globalThis as unknown as { level: typeof LevelPage }).level.differences(given),
          seed
        )
        expect(seen.rows).toBeGreaterThan(600)
        expect(seen.compared).toBe(120)
        expect(seen.differing).toEqual([])
      }
    } finally {
      await browser.close()
      await server.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  }, 120_000)
})
