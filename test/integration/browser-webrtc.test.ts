import { expect, it } from 'vitest'
import { createNode } from '../../src/node.ts'
import { openPages, startInPage } from '../support/browser-pages.ts'
import { describeInBrowser } from '../support/chromium.ts'
import { nodeDir } from '../support/node-dir.ts'

/** The native part of WebRTC in Node is an optional package of its own for each platform. */
const nativePart = await import('node-datachannel').then(
  () => undefined,
  (error: unknown) => String(error)
)

describeInBrowser('WebRTC-direct', () => {
  it('carries a session from a page to a node that listens on it, without a name or a certificate authority', async ({ skip }) => {
    if (nativePart !== undefined) skip(`node-datachannel has no build here: ${nativePart}`)
    const dir = nodeDir()
    const pages = await openPages({ args: ['--allow-loopback-in-peer-connection'] })
    const node = await createNode({
      dataDir: dir.path,
      listen: ['/ip4/127.0.0.1/udp/0/webrtc-direct'],
      http: { enabled: false },
      grants: { peers: 'anyone' }
    })
    try {
      const echo = await node.addAgent({ name: 'echo', handler: 'echo' })
      const addr = node.host.addresses().find((one) => one.includes('/webrtc-direct/certhash/'))
      const page = await pages.open()
      await startInPage(page, { bootstrap: [`${addr}/p2p/${node.peer}`] })
      const seen = await page.evaluate(async (did) => {
        const session = await held.node.openSession(did)
        const sent = await held.node.sendTask(did, 'over WebRTC')
        return { info: session.info(), sent, violations: held.violations }
      }, echo.did)
      expect(seen.info).toMatchObject({ state: 'established', transport: 'webrtc' })
      expect(seen.sent).toMatchObject({ outcome: 'task', task: { status: { state: 'TASK_STATE_COMPLETED' } } })
      expect(seen.violations).toEqual([])
      await page.evaluate(async () => await held.node.stop())
    } finally {
      await pages.close()
      await node.stop()
      dir.remove()
    }
  }, 120_000)
})
