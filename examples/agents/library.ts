/**
 * An agent inside your own process: a function that the node calls for each task. Run it: node examples/agents/library.ts
 * In a program of yours, import from 'rookery'.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createNode, initDataDir, nodeCrypto, systemRandom } from '../../src/index.ts'

const dataDir = mkdtempSync(join(tmpdir(), 'rookery-example-'))
initDataDir(dataDir, { crypto: nodeCrypto, random: systemRandom })
const node = await createNode({ dataDir, listen: ['/ip4/127.0.0.1/udp/0/quic-v1'], http: { enabled: false }, bootstrap: [] })
const clerk = await node.addAgent({ name: 'clerk' })
const customer = await node.addAgent({ name: 'customer' })

await node.onTask(
  clerk,
  async ({ message, history, attempt }, { progress }) => {
    if (history.length === 1) return { ask: { text: 'For which city?' } }
    await progress({ text: `looking it up, attempt ${attempt}` })
    const [part] = message.parts as { text: string }[]
    return { text: `Sunny in ${part?.text}` }
  },
  { sideEffects: 'none' }
)

const say = (text: string, taskId?: string) => ({
  messageId: crypto.randomUUID(),
  role: 'ROLE_USER',
  parts: [{ text }],
  ...(taskId === undefined ? {} : { taskId })
})
interface Shown {
  id: string
  status: { state: string; message?: { parts: { text: string }[] } }
  artifacts?: { parts: { text: string }[] }[]
}
const asked = await node.send({ from: customer, to: clerk.eid, message: say('Weather?') })
const first = asked.task as unknown as Shown
process.stdout.write(`the clerk asks: ${first.status.message?.parts[0]?.text}\n`)
const answered = await node.send({ from: customer, to: clerk.eid, message: say('Oslo', first.id) })
const last = answered.task as unknown as Shown
process.stdout.write(`the clerk answers: ${last.artifacts?.[0]?.parts[0]?.text} (${last.status.state})\n`)
await node.stop()
rmSync(dataDir, { recursive: true, force: true })
