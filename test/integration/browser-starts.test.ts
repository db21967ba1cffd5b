import { expect, it } from 'vitest'
import { describeInBrowser, findChromium, launchChromium } from '../support/chromium.ts'

describeInBrowser('the browser of the tests', () => {
  it('starts and shows a page', async () => {
    const browser = await launchChromium()
    try {
      const page = await browser.context.newPage()
      await page.setContent('<title>rookery</title><main>ready</main>')
      expect(await page.locator('main').textContent()).toBe('ready')
      expect(Number.parseInt(browser.version.replace(/^\D+/, ''), 10)).toBeGreaterThan(100)
    } finally {
      await browser.close()
    }
  })

  it('is not found where ROOKERY_CHROMIUM names nothing that can be run', () => {
    expect(findChromium({ ROOKERY_CHROMIUM: '/nowhere/chromium', PATH: process.env.PATH })).toBeUndefined()
  })
})
