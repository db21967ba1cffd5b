import { afterEach, describe, expect, it } from 'vitest'
import type { Eid } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../../src/errors.ts'
import { createNode, type RookeryNode } from '../../src/node.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { aContract, someRequirements } from '../support/ecc-values.ts'
import { LOOPBACK, nodeDir } from '../support/node-dir.ts'

const opened: { node?: RookeryNode; dir: ReturnType<typeof nodeDir> }[] = []
afterEach(async () => {
  for (const { node, dir } of opened.splice(0).reverse()) {
    await node?.stop()
    dir.remove()
  }
})

async function node(config: object = {}): Promise<RookeryNode> {
  const entry: (typeof opened)[number] = { dir: nodeDir() }
  opened.push(entry)
  entry.node = await createNode({ ...LOOPBACK, ...config, dataDir: entry.dir.path })
  return entry.node
}

async function pair() {
  const b = await node({ edgeCloud: { contracts: { baker: aContract() } } })
  const a = await node({ bootstrap: b.host.addresses().map((address) => `${address}/p2p/${b.peer}`) })
  while ([a, b].some((one) => one.host.peers().length === 0 || one.host.dht.routingTableSize() === 0)) await systemClock.sleep(20)
  const alice = await a.addAgent({ name: 'alice' })
  const baker = await b.addAgent({ name: 'baker' })
  let runs = 0
  await b.onTask(
    baker,
    async () => {
      runs++
      return { text: 'three rolls' }
    },
    { sideEffects: 'reversible', skills: [{ id: 'bake', name: 'Bake', description: 'Bakes', tags: ['bread'] }] }
  )
  return { a, b, alice, baker, runs: () => runs }
}

const message = (messageId: string) => ({ messageId, role: 'ROLE_USER', parts: [{ text: 'bake' }] })
const able = (more: object = {}) => someRequirements({ maxSideEffect: 'reversible', ...more })

async function refusal(work: Promise<unknown>): Promise<RookeryError> {
  try {
    await work
  } catch (error) {
    if (error instanceof RookeryError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

describe('two nodes', () => {
  it('[ECC-05] [ECC-10] [ECC-11] [ECC-12] a sender takes a result over a session with card, activation and receipt verified, and refuses before it sends', async () => {
    const { a, b, alice, baker, runs } = await pair()
    const carol = await b.addAgent({ name: 'carol', handler: 'echo' })
    const require = able({ requiredAttestation: ['signed-receipt-ed25519'], allowedRegions: ['EU'] })
    const outcome = await a.send({ from: alice, to: baker.eid, message: message('m-1') }, { require })
    expect(outcome).toMatchObject({
      outcome: 'task',
      task: { status: { state: 'TASK_STATE_COMPLETED' } },
      execution: {
        status: 'verified',
        receipt: { site: { siteId: 's1', region: 'DE-BE' }, verifierStatus: 'passed', attestation: { method: 'signed-receipt-ed25519' } }
      }
    })
    const tried = async (to: Eid, more: object = {}) =>
      await refusal(a.send({ from: alice, to, message: message('m-2') }, { require: able(more) }))
    expect(await tried(baker.eid, { networkMode: 'offline' })).toMatchObject({
      code: 'EXECUTION_REFUSED',
      field: 'requirements.networkMode',
      data: { cause: 'NETWORK_MODE_UNSUPPORTED' }
    })
    expect(await tried(carol.eid)).toMatchObject({ code: 'CONTRACT_MISSING' })
    a.config.edgeCloud.policy = { allowedSites: ['device'] }
    expect(await tried(baker.eid)).toMatchObject({ code: 'EXECUTION_REFUSED', field: 'requirements.allowedSites' })
    expect([runs(), await b.todos.count({ agent: baker.homeHex }), await b.todos.count({ agent: carol.homeHex })]).toEqual([1, 1, 0])

    // the extended card came over the session: signed, with what bounds this caller and what each skill may do [TD-R1] [G-72]
    const answer = await fetch(`${a.httpUrl}/agents/${baker.did}/.well-known/agent-card.json`)
    const card = (await answer.json()) as { capabilities: { extensions: object[] }; signatures?: unknown }
    expect(card.capabilities.extensions).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          uri: 'rookery:extension/limits/v1',
          params: expect.objectContaining({ tasks: { openMax: b.todos.bounds.openPerCallerMax } })
        }),
        expect.objectContaining({
          uri: 'rookery:extension/side-effects/v1',
          params: { agent: 'reversible', skills: { bake: 'reversible' } }
        })
      ])
    )
    expect(card).not.toHaveProperty('signatures')
  })
})

it('[G-72] a handler that declares more than its contract admits is not put to work', async () => {
  const b = await node({ edgeCloud: { contracts: { baker: aContract({ sideEffects: { class: 'none', idempotency: 'none' } }) } } })
  const baker = await b.addAgent({ name: 'baker' })
  expect(await refusal(b.onTask(baker, async () => ({ text: 'x' }), { sideEffects: 'reversible' }))).toMatchObject({
    code: 'CONTRACT_UNDERSTATES',
    field: 'edgeCloud.contracts.baker.sideEffects.class',
    value: 'none'
  })
})
