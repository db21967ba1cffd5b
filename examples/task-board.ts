/**
 * Three agents on three nodes share a task board: a group in which each writes its own state and sees that of the others at once. A task is posted by
 * one, claimed by another, done; then one agent is taken out, and reads nothing more.
 *
 *   node examples/task-board.ts
 *
 * In a program of your own: `import { … } from 'rookery'`.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createNode, type Group, initDataDir, nodeCrypto, type RookeryNode, systemClock, systemRandom } from '../src/index.ts'

const say = (line: string) => process.stdout.write(`${line}\n`)
const folder = mkdtempSync(join(tmpdir(), 'rookery-example-'))

async function start(name: string, bootstrap: string[]): Promise<RookeryNode> {
  const dataDir = join(folder, name)
  initDataDir(dataDir, { crypto: nodeCrypto, random: systemRandom })
  return await createNode({ dataDir, listen: ['/ip4/127.0.0.1/udp/0/quic-v1'], http: { enabled: false }, bootstrap })
}

/** The board, once the agent was invited to it. */
async function boardOf(node: RookeryNode): Promise<Group> {
  const { promise, resolve } = Promise.withResolvers<Group>()
  node.groups.onGroup(resolve)
  return node.groups.list()[0] ?? (await promise)
}

/** Waits until the board shows something; looks again after every change. */
async function until(board: Group, is: () => boolean): Promise<void> {
  const changes = board.changes()
  while (!is()) await changes.next()
  await changes.return?.()
}

/** What the board says of a task: the entry of whoever has gone furthest with it. */
function task(board: Group, id: string): string {
  const order = ['posted', 'claimed', 'done']
  const entries = [...board.everyones(id).values()].map((value) => (value as { state: string }).state)
  return entries.sort((a, b) => order.indexOf(b) - order.indexOf(a))[0] ?? 'unknown'
}

try {
  await using one = await start('one', [])
  const bootstrap = one.host.addresses().map((address) => `${address}/p2p/${one.peer}`)
  await using two = await start('two', bootstrap)
  await using three = await start('three', bootstrap)
  while ([one, two, three].some(({ host }) => host.dht.routingTableSize() === 0)) await systemClock.sleep(20)
  const [ann, ben, eve] = await Promise.all([one.addAgent({ name: 'ann' }), two.addAgent({ name: 'ben' }), three.addAgent({ name: 'eve' })])

  const anns = await one.groups.create(ann, { name: 'board' })
  await anns.invite(ben.eid)
  await anns.invite(eve.eid)
  const [bens, eves] = await Promise.all([boardOf(two), boardOf(three)])
  say(`members: ${bens.members().length}`)

  await anns.set('task-1', { state: 'posted', what: 'read the meter' })
  await until(bens, () => task(bens, 'task-1') === 'posted')
  await bens.set('task-1', { state: 'claimed' })
  await until(eves, () => task(eves, 'task-1') === 'claimed')
  say(`eve sees: ${task(eves, 'task-1')}`)
  await bens.set('task-1', { state: 'done', result: 42 })
  await until(anns, () => task(anns, 'task-1') === 'done')
  await until(eves, () => task(eves, 'task-1') === 'done')
  say(`ann sees: ${task(anns, 'task-1')}`)
  say(`all hold the same: ${new Set([anns, bens, eves].map((board) => board.hash())).size === 1}`)

  await anns.remove(eve.eid)
  await until(eves, () => eves.isOver)
  await until(bens, () => bens.members().length === 2)
  await bens.set('task-2', { state: 'posted', what: 'not for eve' })
  await until(anns, () => task(anns, 'task-2') === 'posted')
  say(`eve sees of task 2: ${task(eves, 'task-2')}`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
