import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { buildBrowser } from '../../packaging/browser/build.ts'
import type * as Rookery from '../../src/browser/index.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { type LaunchedChromium, launchChromium } from './chromium.ts'
import { type PageServer, servePages } from './page-server.ts'

declare global {
  /** what a test keeps in its page between two calls */
  var held: { rookery: typeof Rookery; node: Rookery.BrowserNode; violations: string[] }
}

/** The bundle, a server for it and a browser. */
export interface Pages {
  readonly browser: LaunchedChromium
  readonly url: string
  /** a page that has the bundle as `held.rookery`, and notes what its security policy blocks */
  open(): Promise<Page>
  /** loads a page anew, as {@link open} does */
  reload(page: Page): Promise<void>
  close(): Promise<void>
}

export async function openPages(options: { args?: readonly string[]; folders?: readonly string[] } = {}): Promise<Pages> {
  const bundle = mkdtempSync(join(tmpdir(), 'rookery-bundle-'))
  await buildBrowser(bundle)
  const server: PageServer = await servePages([bundle, ...(options.folders ?? [])])
  const browser = await launchChromium(options.args === undefined ? {} : { args: options.args })
  const prepare = async (page: Page) => {
    while (!(await page.evaluate(() => globalThis.held !== undefined))) await systemClock.sleep(20)
  }
  return {
    browser,
    url: server.url,
    async open() {
      const page = await browser.context.newPage()
      page.setDefaultTimeout(60_000)
      await page.goto(server.url)
      await prepare(page)
      return page
    },
    async reload(page) {
      await page.reload()
      await prepare(page)
    },
    async close() {
      await browser.close()
      await server.stop()
      rmSync(bundle, { recursive: true, force: true })
    }
  }
}

/** Starts the node of a page. @returns its DID */
export async function startInPage(page: Page, init: Rookery.BrowserNodeInit): Promise<string> {
  return await page.evaluate(async (given) => {
    held.node = await held.rookery.createBrowserNode(given)
    return held.node.did
  }, init)
}

/** What a promise of the page rejects with, as its JSON; undefined where it resolves. */
export type Refusal = { code: string; kind: string; field?: string; remedy?: string } | undefined
