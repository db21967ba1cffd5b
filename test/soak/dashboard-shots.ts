import { mkdirSync } from 'node:fs'
import { controlHandlers } from '../../src/api/control-handlers.ts'
import { launchChromium } from '../support/chromium.ts'
import { dashboardWorld, QUIET, SPACE } from '../support/dashboard-world.ts'
import { scriptOptions } from '../support/script-options.ts'

const USAGE = `npm run dashboard:shots -- [<folder>] [--used]

Screenshots of every view of the dashboard, light and dark, wide and narrow, of a node in use and of an empty one, to be looked at by a person.

  <folder>  where they go; default dashboard-shots
  --used    of the node in use only
`
const { values, positionals } = scriptOptions(USAGE, { used: { type: 'boolean', default: false } }, true)
const [folder = 'dashboard-shots'] = positionals
mkdirSync(folder, { recursive: true })
const world = await dashboardWorld()
const browser = await launchChromium()
try {
  const page = await browser.context.newPage()
  page.on('console', (message) => process.stdout.write(`console ${message.type()}: ${message.text()}\n`))
  page.on('pageerror', (error) => process.stdout.write(`page error: ${error.stack}\n`))
  const views = ['overview', 'tasks', 'network', 'sessions', 'mail', 'trust', 'logs']
  const shoot = async (name: string, wanted = views) => {
    for (const view of wanted) {
      await page.evaluate((hash) => (location.hash = hash), `#/${view}`)
      await page.waitForFunction((text) => document.querySelector(`.view-${text} h1`) !== null, view)
      await page.waitForTimeout(700)
      await page.screenshot({ path: `${folder}/${name}-${view}.png` })
    }
  }
  await page.setViewportSize({ width: 1280, height: 860 })
  await page.goto(world.address())
  await page.waitForSelector('.tile')
  if (!values.used) await shoot('empty', ['tasks', 'network', 'sessions', 'mail'])

  const { alice, bob, clerk, owl, eve, there, third, home } = world
  const thirds = controlHandlers(third)
  await home.spaces.announce({ name: SPACE, curator: bob, description: 'Energy bought and sold by the hour' })
  await home.spaces.join({ name: SPACE, agent: bob, tags: ['solar'] })
  await there.spaces.join({ name: SPACE, agent: alice, tags: ['wind', 'storage'] })
  for (const text of ['What does a kilowatt hour cost at nine tonight?', 'Sum up the offers of this morning', 'Thanks'])
    await world.send(alice, bob, text, { waitMs: 20_000 })
  for (const text of ['Please check the invoice 2026-114 against the order and tell what differs', 'Book the hall for Thursday'])
    await world.send(alice, clerk, text)
  for (const text of ['Wake up', 'The price fell below 4 cents']) await world.send(alice, owl, text, { via: 'mailbox' })
  const failing = (await home.todos.list({ state: 'pending', limit: 1 })).todos[0]
  if (failing !== undefined) await world.handlers['inbox.fail']({ id: failing.id, reason: 'the order cannot be found' }, QUIET)
  await thirds['friends.request'](
    {
      did: bob.did,
      name: 'Eve of the harbour',
      note: 'We trade the same contracts; may my agent ask yours for prices?',
      verbs: ['send', 'read']
    },
    QUIET
  )
  await home.mail.post({
    from: bob,
    to: eve.eid,
    message: { messageId: 'm-out', role: 'ROLE_USER', parts: [{ text: 'the prices of today' }] }
  })
  await page.waitForSelector('.badge')
  await page.evaluate(() => (location.hash = '#/network'))
  await page
    .getByRole('button', { name: /Find the members/ })
    .first()
    .click()
  await page.waitForSelector('.members ul')
  await page.evaluate(() => (location.hash = '#/sessions'))
  await page.locator('.session-head').first().click()
  await page.waitForSelector('.vectors')
  for (const scheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: scheme })
    await page.setViewportSize({ width: 1280, height: 860 })
    await shoot(scheme)
    await page.setViewportSize({ width: 390, height: 844 })
    await shoot(`${scheme}-390`)
  }
  await page.setViewportSize({ width: 1280, height: 860 })
  await page.evaluate(() => (location.hash = '#/tasks'))
  await page.locator('.card-text').first().click()
  await page.waitForSelector('dialog[open]')
  await page.screenshot({ path: `${folder}/dark-dialog.png` })
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.waitForSelector('.lone')
  await page.screenshot({ path: `${folder}/signed-out.png` })
} finally {
  await browser.close()
  await world.stop()
}
