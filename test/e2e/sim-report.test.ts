import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { loadScenario, renderHtml, runScenario, type SimReport } from '../../sim/index.ts'
import { describeInBrowser, type LaunchedChromium, launchChromium } from '../support/chromium.ts'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** What the design asks a report to show: the title of each picture or table, and how it is shown. */
const PICTURES = [
  'Search latency, ms',
  'Hops of a search, to the last registrar',
  'Members found by a search',
  'Success over time',
  'Time to join the space, ms',
  'Session handshake, ms',
  'Item there and back over the session, ms',
  'Message until it is acknowledged, ms',
  'Messages that wait',
  'Wakes by second of the period',
  'Messages sent a node',
  'Bytes sent a node'
]
const TABLES = ['Judged all the time', 'Phases', 'The machine']

let folder: string
let file: string
let report: SimReport
let browser: LaunchedChromium
let page: Page
const requests: string[] = []
const complaints: string[] = []

/** Everything that a report can show, in a model that takes a second. */
async function fullReport(): Promise<SimReport> {
  const sleepers = loadScenario('sleepers')
  const talk = [
    { stage: 'talk', measured: true, lasts: undefined },
    { do: 'openSession' as const, who: 'awake', to: 'awake', pairs: 8, at: undefined, over: undefined, pace: undefined, atOnce: undefined }
  ]
  return await runScenario({ ...sleepers, timeline: [...sleepers.timeline, ...talk] }, { nodes: 60 })
}

describeInBrowser('report.html in a real browser', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rookery-report-'))
    file = join(folder, 'report.html')
    report = await fullReport()
    await writeFile(file, renderHtml(report))
    browser = await launchChromium()
    await browser.context.setOffline(true)
    page = await browser.context.newPage()
    page.on('request', (request) => requests.push(request.url()))
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
    })
    page.on('pageerror', (error) => complaints.push(error.message))
    await page.goto(pathToFileURL(file).href)
  })

  afterAll(async () => {
    await browser?.close()
    await rm(folder, { recursive: true, force: true })
  })

  it('opens without a network: one request, for the file itself, and not a word in the console', async () => {
    expect(await page.title()).toBe('sleepers, 60 nodes, seed 1')
    expect(requests).toEqual([pathToFileURL(file).href])
    expect(complaints).toEqual([])
  })

  it('shows every picture and table of the design, each drawn, named for those who cannot see it, and told in numbers', async () => {
    for (const title of PICTURES) {
      const figure = page.locator('figure', { has: page.getByRole('heading', { name: title, exact: true }) })
      expect(await figure.count(), title).toBe(1)
      const picture = figure.getByRole('img')
      expect(await picture.getAttribute('aria-label'), title).toMatch(/\d/)
      const box = await picture.boundingBox()
      expect(Math.min(box?.width ?? 0, box?.height ?? 0), title).toBeGreaterThan(100)
      expect(await figure.locator('figcaption').textContent(), title).toMatch(/\d/)
    }
    const pictures = await page.getByRole('img').all()
    expect(pictures).toHaveLength(PICTURES.length + report.topologies.length)
    expect(await page.locator('svg.net').count()).toBe(report.topologies.length)
    expect(report.topologies.length).toBeGreaterThanOrEqual(2)
    for (const title of TABLES) expect(await page.getByRole('region', { name: title }).getByRole('table').count(), title).toBe(1)
    const judged = page.getByRole('region', { name: 'Judged all the time' }).getByRole('row')
    expect(await judged.count()).toBe(1 + report.invariants.length)
    expect(await page.getByRole('region', { name: 'The scenario' }).textContent()).toContain('reachability: hourly_wake')
    for (const percentile of ['median', 'p90', 'p99']) {
      expect(await page.locator('figure', { hasText: 'Search latency' }).locator('figcaption').textContent()).toContain(percentile)
    }
  })

  it.each(['light', 'dark'] as const)('can be read in %s: the rules of WCAG AA hold, contrast included', async (colorScheme) => {
    await page.emulateMedia({ colorScheme })
    const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
    const [red = 0] = ground.match(/\d+/g)?.map(Number) ?? []
    expect(red > 128).toBe(colorScheme === 'light')
    await page.evaluate(axe)
    const violations = await page.evaluate(async () => {
      // biome-ignore lint/suspicious/noExplicitAny: axe puts itself on the window
      const found = await (window as any).axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice'] })
      return found.violations.map(
        (one: { id: string; nodes: { html: string }[] }) => `${one.id}: ${one.nodes.map(({ html }) => html.slice(0, 120))}`
      )
    })
    expect(violations).toEqual([])
  })

  it.each([1_280, 700, 360])(
    'fits a window of %i px: nothing hangs out, no label of a picture is cut, laid over another or tiny',
    async (width) => {
      await page.setViewportSize({ width, height: 900 })
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width)
      const bad = await page.evaluate(() => {
        const wrong: string[] = []
        for (const svg of document.querySelectorAll('svg')) {
          const frame = svg.getBoundingClientRect()
          const labels = [...svg.querySelectorAll('text')].map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() }))
          for (const [i, { text, box }] of labels.entries()) {
            if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1) wrong.push(`cut: ${text}`)
            if (box.height < 11) wrong.push(`tiny: ${text}, ${box.height} px`)
            for (const other of labels.slice(i + 1)) {
              const apart =
                box.right <= other.box.left || other.box.right <= box.left || box.bottom <= other.box.top || other.box.bottom <= box.top
              if (!apart) wrong.push(`over each other: ${text}, ${other.text}`)
            }
          }
        }
        return wrong
      })
      expect(bad).toEqual([])
    }
  )

  it('is reached by the keyboard: Tab comes to every summary and every panel that can be moved, and Enter opens the numbers', async () => {
    await page.setViewportSize({ width: 1_280, height: 900 })
    const wanted = await page.locator('summary, [tabindex="0"]').count()
    expect(wanted).toBeGreaterThan(PICTURES.length)
    const first = page.locator('figure', { hasText: 'Search latency' })
    expect(await first.getByRole('table').isVisible()).toBe(false)
    const reached = new Set<string>()
    for (let i = 0; i < wanted; i++) {
      await page.keyboard.press('Tab')
      const at = await page.evaluate(() => {
        const all = [...document.querySelectorAll('summary, [tabindex="0"]')]
        const focused = document.activeElement as Element
        const style = getComputedStyle(focused)
        return {
          place: String(all.indexOf(focused)),
          outline: style.outlineStyle,
          isSummary: focused.matches('figure:first-child summary')
        }
      })
      expect(at.outline).not.toBe('none')
      reached.add(at.place)
      if (at.isSummary && reached.size < 6) await page.keyboard.press('Enter')
    }
    expect(reached.size).toBe(wanted)
    expect(reached.has('-1')).toBe(false)
    expect(await first.getByRole('table').isVisible()).toBe(true)
  })
})
