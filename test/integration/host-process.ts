/**
 * A host in a process of its own, driven by messages of its parent: `{seed, listen}` starts it, `memory` asks for its resident bytes.
 */
import { addressOf, startHost, stopHosts } from './host-fixture.ts'

const say = (message: object) => process.send?.(message)

process.on('message', (message: { seed?: string; listen?: string[]; ask?: 'memory' | 'stop' }) => {
  void answer(message).catch((error: Error) => say({ error: error.message }))
})

async function answer(message: { seed?: string; listen?: string[]; ask?: 'memory' | 'stop' }): Promise<void> {
  if (message.ask === 'memory') {
    say({ rss: process.memoryUsage().rss })
    return
  }
  if (message.ask === 'stop') {
    await stopHosts()
    process.disconnect()
    return
  }
  const host = await startHost({ init: { privateKey: Buffer.from(message.seed ?? '', 'hex'), listen: message.listen ?? [] } })
  await host.handle('/rookery/echo/1.0.0', async (stream) => {
    try {
      for (;;) await stream.write(await stream.read(1))
    } finally {
      await stream.close()
    }
  })
  await host.handle('/rookery/never-reads/1.0.0', async (stream) => {
    await stream.read(1)
    await stream.closed
  })
  say({ address: addressOf(host) })
}
