import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { controlHandlers } from '../../src/api/control-handlers.ts'
import { homeOf } from '../../src/identity/agent.ts'
import { describeInBrowser, type LaunchedChromium, launchChromium } from '../support/chromium.ts'
import { cuttableLine } from '../support/cuttable-line.ts'
import { type DashboardWorld, dashboardWorld, QUIET, SPACE } from '../support/dashboard-world.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const VIEWS = ['overview', 'tasks', 'network', 'sessions', 'mail', 'trust', 'logs'] as const
const EVIL = '<img src=x onerror="window.pwned=1">'
const SLOW = { timeout: 60_000 }
const PATIENCE = { timeout: 240_000 }

describeInBrowser('the dashboard in a real browser', () => {
  let world: DashboardWorld
  let browser: LaunchedChromium
  let page: Page
  /** whatever a browser would write in red, and requests to anywhere but the node */
  const complaints: string[] = []
  const requests: string[] = []
  const ours = new Set<string>()
  /** a browser says of a line that a test cut that it was cut */
  let isCut = false

  beforeAll(async () => {
    world = await dashboardWorld()
    ours.add(world.ops.url)
    browser = await launchChromium()
  }, 120_000)
  afterAll(async () => {
    await browser?.close()
    await world?.stop()
  })
  beforeEach(async () => {
    page = await browser.context.newPage()
    page.setDefaultTimeout(SLOW.timeout)
    await page.setViewportSize({ width: 1280, height: 860 })
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
    })
    page.on('pageerror', (error) => complaints.push(String(error)))
    page.on('request', (request) => requests.push(`${request.method()} ${request.url()}`))
    await page.route(
      (url) => !ours.has(url.origin),
      (route) => {
        complaints.push(`asked ${route.request().url()}`)
        return route.abort()
      }
    )
  })
  afterEach(async () => {
    await page.close()
    expect(complaints.splice(0).filter((one) => !isCut || !one.includes('net::ERR_'))).toEqual([])
    isCut = false
    requests.length = 0
  })

  const enter = async () => {
    await page.goto(world.address())
    await page.locator('.tile').first().waitFor()
  }
  const go = async (view: (typeof VIEWS)[number]) => {
    await page.evaluate((hash) => {
      location.hash = hash
    }, `#/${view}`)
    await page.locator(`.view-${view} h1`).waitFor()
  }

  it('is entered by a one-time address that leaves no trace, outlives a reload, and is good for one page', PATIENCE, async () => {
    const address = world.address()
    await page.goto(address)
    await page.locator('.tile').first().waitFor()
    expect(page.url()).toBe(`${world.ops.url}/dashboard#/overview`)
    expect(await browser.context.cookies()).toEqual([])
    const code = new URL(address).hash.slice(1)
    expect(requests.join('\n')).not.toContain(code)
    expect(await page.evaluate(() => history.length)).toBeLessThanOrEqual(2)
    await page.reload()
    await page.locator('.tile').first().waitFor()

    const other = await browser.context.newPage()
    await other.goto(address)
    await other.getByRole('heading', { name: 'You are signed out' }).waitFor(SLOW)
    await other.getByRole('alert').filter({ hasText: 'used already' }).waitFor(SLOW)
    expect(await other.locator('main').textContent()).not.toContain('bob')
    await other.close()

    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'You are signed out' }).waitFor()
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0)
    await page.reload()
    await page.getByRole('heading', { name: 'You are signed out' }).waitFor()
  })

  it('shows a task going through its states as it happens, by one stream and no further request', PATIENCE, async () => {
    await enter()
    await go('tasks')
    const asked = requests.length
    const column = (name: string) => page.getByRole('region', { name: new RegExp(`^${name}`) })
    await world.send(world.alice, world.clerk, 'check the invoice 2026-114')
    const card = (name: string) => column(name).getByRole('listitem').filter({ hasText: 'check the invoice 2026-114' })
    await card('Waiting').waitFor()
    const [todo] = (await world.home.todos.list({ agent: homeOf(world.clerk), state: 'pending' })).todos
    const id = todo?.id ?? ''
    await world.home.todos.claimOne(id, 'a person', { leaseMs: 60_000 })
    await card('Working').waitFor()
    await world.home.todos.ask(id, 'a person', {
      for: 'input',
      message: { messageId: 'q', role: 'ROLE_AGENT', parts: [{ text: 'which order?' }] }
    })
    await card('Needs an answer').filter({ hasText: 'needs input' }).waitFor()
    await world.handlers['inbox.reject']({ id, reason: 'no such order' }, QUIET)
    await card('Ended otherwise').filter({ hasText: 'no such order' }).waitFor()
    expect(await card('Waiting').count()).toBe(0)
    expect(requests.slice(asked)).toEqual([])
    await card('Ended otherwise').getByRole('button', { name: 'check the invoice' }).click()
    const dialog = page.getByRole('dialog', { name: 'Task of clerk' })
    await dialog.getByText('caller: check the invoice 2026-114').waitFor()
    await dialog.getByText('no such order').first().waitFor()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'hidden' })

    const { todo: held } = await world.home.todos.create({
      agent: homeOf(world.clerk),
      caller: { id: `eid:${homeOf(world.clerk)}`, eid: homeOf(world.clerk) },
      message: { messageId: 'held', role: 'ROLE_USER', parts: [{ text: 'pay the invoice' }] },
      door: 'asleep-queue',
      approval: 'needed'
    })
    const waits = column('Needs an answer').getByRole('listitem').filter({ hasText: 'pay the invoice' })
    await waits.filter({ hasText: 'needs your approval' }).getByRole('button', { name: 'Approve' }).click()
    await waits.filter({ hasText: 'needs your approval' }).waitFor({ state: 'detached' })
    await column('Waiting').getByRole('listitem').filter({ hasText: 'pay the invoice' }).waitFor()
    expect(await world.home.todos.get(held.id)).toMatchObject({ approval: 'given', state: 'pending' })
    await world.home.todos.cancel(held.id)
  })

  it(
    'lets a friend request be approved by the keyboard alone, tells it to who listens, and revokes the grant after asking',
    PATIENCE,
    async () => {
      const { bob, eve, third } = world
      await enter()
      const stranger = controlHandlers(third)
      await stranger['friends.request']({ did: bob.did, name: `Eve ${EVIL}`, note: `${EVIL} let me in`, verbs: ['send'] }, QUIET)
      await page.locator('#told').filter({ hasText: '1 friend request' }).waitFor({ state: 'attached' })
      const pressUntil = async (reached: string) => {
        for (let i = 0; i < 60; i++) {
          await page.keyboard.press('Tab')
          const name = await page.evaluate(() => {
            const focused = document.activeElement
            return focused?.matches('a, button') ? (focused.getAttribute('aria-label') ?? focused.textContent) : ''
          })
          if (name.includes(reached)) return
        }
        throw new Error(`the Tab key does not reach ${reached}`)
      }
      await pressUntil('Grants & friends')
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement as Element).outlineStyle)
      expect(outline).toBe('solid')
      await page.keyboard.press('Enter')
      await page.locator('.view-trust h1').waitFor()
      await pressUntil(`Approve Eve`)
      await page.keyboard.press('Enter')
      await page.getByRole('status').filter({ hasText: 'is a friend of bob' }).waitFor()
      const row = page.getByRole('row').filter({ hasText: `Eve ${EVIL}` })
      await row.filter({ hasText: 'approved' }).waitFor()
      expect(await world.send(eve, bob, 'hello as a friend', { waitMs: 60_000 })).toMatchObject({ outcome: 'task' })

      const mallory = await third.addAgent({ name: 'mallory' })
      await stranger['friends.request']({ agent: 'mallory', did: bob.did, name: 'Mallory', verbs: ['send'] }, QUIET)
      await page.getByRole('button', { name: 'Deny Mallory' }).click()
      await page.getByRole('row').filter({ hasText: 'Mallory' }).filter({ hasText: 'denied' }).waitFor()
      await expect(world.send(mallory, bob, 'hello')).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })

      await pressUntil('Revoke the grant of Eve')
      await page.keyboard.press('Enter')
      const dialog = page.getByRole('dialog', { name: /Revoke the grant of Eve/ })
      await dialog.waitFor()
      await page.keyboard.press('Escape')
      expect(world.home.grants.list().some((grant) => world.home.grants.state(grant) === 'revoked')).toBe(false)
      await pressUntil('Revoke the grant of Eve')
      await page.keyboard.press('Enter')
      await dialog.getByRole('button', { name: 'Revoke' }).click()
      await page.getByRole('row').filter({ hasText: 'revoked' }).waitFor()
      await expect(world.send(eve, bob, 'hello once more')).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
      expect(await page.evaluate(() => 'pwned' in window)).toBe(false)
    }
  )

  it('shows sessions with their vectors, what waits for a sleeping agent, and wakes it', PATIENCE, async () => {
    const { alice, bob, owl } = world
    await world.send(alice, bob, 'one', { waitMs: 60_000 })
    await world.send(alice, owl, `${EVIL} while you slept`, { via: 'mailbox' })
    await enter()
    await go('sessions')
    await page.locator('.session-head').first().click()
    const vectors = page.getByRole('group', { name: 'Vectors' })
    await vectors.waitFor()
    expect(await vectors.textContent()).toMatch(/Sent\d+chain [0-9a-f]{16}….*Acknowledged\d+chain.*Received\d+chain/)
    await page.getByText('Round trip').waitFor()

    await go('mail')
    const queue = page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: 'owl' }) })
    await queue.filter({ hasText: '1 of 500' }).getByText('asleep').waitFor()
    await queue.getByRole('button', { name: 'Wake owl' }).click()
    await queue.getByText('takes work').waitFor()
    await queue.filter({ hasText: '0 of 500' }).waitFor()
    await go('tasks')
    await page.getByRole('listitem').filter({ hasText: 'while you slept' }).first().waitFor()
    expect(await page.evaluate(() => 'pwned' in window)).toBe(false)
    await world.home.sleep(owl)
  })

  it('draws the network, finds the members of a space when asked, and shows what others wrote as text', PATIENCE, async () => {
    const { home, there, alice, bob } = world
    await home.spaces.announce({ name: SPACE, curator: bob })
    await there.spaces.join({ name: SPACE, agent: alice, tags: [EVIL] })
    await enter()
    await go('network')
    const graph = page.getByRole('img', { name: /2 connected peers/ })
    await graph.waitFor()
    await page.getByRole('button', { name: `Find the members of ${SPACE}` }).click()
    await page.locator('.members').getByText(EVIL).waitFor()
    expect(await page.locator('.graph .dots .member').count()).toBe(1)
    expect(await page.locator('main img').count()).toBe(0)
    expect(await page.evaluate(() => 'pwned' in window)).toBe(false)
  })

  it(
    'follows the log, filters it by level and text, pauses, and goes on after a lost connection without a gap or a line twice',
    PATIENCE,
    async () => {
      const line = await cuttableLine(world.ops.port)
      ours.add(line.url)
      await page.goto(world.address().replace(world.ops.url, line.url))
      await page.locator('.tile').first().waitFor()
      await go('logs')
      const { logger } = world.home
      logger.warn({ who: EVIL }, `${EVIL} in a line`)
      const lines = page.getByRole('region', { name: 'Log lines' })
      await lines.getByText(`${EVIL} in a line`).waitFor()
      logger.info({}, 'an ordinary line')
      await lines.getByText('an ordinary line').waitFor()
      await page.getByLabel('Level').selectOption('warn')
      await lines.getByText('an ordinary line').waitFor({ state: 'detached' })
      await lines.getByText(`${EVIL} in a line`).waitFor()
      await page.getByLabel('Level').selectOption('debug')
      await page.getByLabel('Contains').fill('counted')
      await page.getByText('No line fits these filters.').waitFor()

      for (let i = 0; i < 20; i++) logger.info({}, `counted ${i}.`)
      await lines.getByText('counted 19.').waitFor()
      isCut = true
      line.cut()
      await page.locator('#connection').filter({ hasText: 'reconnecting' }).waitFor()
      for (let i = 20; i < 40; i++) logger.info({}, `counted ${i}.`)
      line.mend()
      await page.locator('#connection').filter({ hasText: 'live' }).waitFor()
      await lines.getByText('counted 39.').waitFor()
      const shown = await lines.locator('.message').allTextContents()
      expect(shown.map((text) => Number(/counted (\d+)\./.exec(text)?.[1])).reverse()).toEqual(Array.from({ length: 40 }, (_, i) => i))
      await page.getByRole('button', { name: 'Pause' }).click()
      logger.info({}, 'counted 40.')
      await page.getByRole('button', { name: /Go on \(\d+ new\)/ }).click()
      await lines.getByText('counted 40.').waitFor()
      expect(await page.evaluate(() => 'pwned' in window)).toBe(false)
      await line.close()
    }
  )

  it('shows so many cards of a column and says how many more there are', PATIENCE, async () => {
    for (let i = 0; i < 60; i++) {
      await world.home.todos.create({
        agent: homeOf(world.clerk),
        caller: { id: `eid:${homeOf(world.clerk)}`, eid: homeOf(world.clerk) },
        message: { messageId: `many-${i}`, role: 'ROLE_USER', parts: [{ text: `of many ${i}` }] },
        door: 'library'
      })
    }
    await enter()
    await go('tasks')
    const waiting = page.getByRole('region', { name: /^Waiting/ })
    await waiting.getByText('and 10 more').waitFor()
    expect(await waiting.getByRole('listitem').count()).toBe(50)
  })

  it('has no fault that axe finds, light or dark, and fits 390 pixels without scrolling sideways', PATIENCE, async () => {
    await enter()
    await go('sessions')
    await page.locator('.session-head').first().click()
    await page.getByRole('group', { name: 'Vectors' }).waitFor()
    await page.evaluate(AXE)
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      for (const view of VIEWS) {
        await go(view)
        await page.setViewportSize({ width: 1280, height: 860 })
        const faults = await page.evaluate(
          async (only) => {
            type Axe = { run(options: object): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> }
            const { violations } = await (window as unknown as { axe: Axe }).axe.run(only)
            return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(' | ')}`)
          },
          colorScheme === 'light' ? {} : { runOnly: ['color-contrast'] }
        )
        expect({ view, colorScheme, faults }).toEqual({ view, colorScheme, faults: [] })
        await page.setViewportSize({ width: 390, height: 844 })
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
        expect({ view, wide: Math.max(0, wide) }).toEqual({ view, wide: 0 })
      }
    }
    await page.emulateMedia({ colorScheme: 'light' })
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
    const light = await ground()
    await page.getByLabel('Colours').selectOption('dark')
    expect(await ground()).not.toBe(light)
    await page.reload()
    await page.locator('h1').waitFor()
    expect(await ground()).not.toBe(light)
    await page.getByLabel('Colours').selectOption('auto')
    expect(await ground()).toBe(light)
  })
})
