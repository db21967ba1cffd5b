import { AgentCard, Role } from '@a2a-js/sdk'
import { type Client, ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client'
import { afterEach, describe, expect, it } from 'vitest'
import { readRefusal } from '../../protocol/delivery/refusals.ts'
import type { QueueBounds } from '../../src/delivery/asleep-queue.ts'
import { fetchAs, startA2aNode, TEST_BOUNDS, tempDir, testAgent } from '../support/a2a-fixture.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const [ANNA, BERT] = [testAgent(1), testAgent(2)]
type Transport = 'JSONRPC' | 'HTTP+JSON'

/** A sleeping agent with these bounds, and what the official client makes of a send to it over this transport. */
async function bench(transport: Transport, bounds: Partial<QueueBounds> = {}) {
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  const sleeper = testAgent(9, { mode: 'sleep' })
  const node = await startA2aNode({ dir: dir.path, agents: [ANNA, BERT, sleeper], bounds: { ...TEST_BOUNDS, ...bounds } })
  cleanups.push(() => node.stop())
  const url = `${node.edge.url}/agents/${sleeper.did}`
  const send = async (messageId: string, as: { token: string }, text = 'x') => {
    const fetchImpl = fetchAs(as)
    const client = await clientOf(url, transport, fetchImpl)
    const part = { content: { $case: 'text' as const, value: text }, metadata: undefined, filename: '', mediaType: '' }
    const message = {
      messageId,
      contextId: '',
      taskId: '',
      role: Role.ROLE_USER,
      parts: [part],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: []
    }
    const error = await client.sendMessage({ tenant: '', message, configuration: undefined, metadata: undefined }).then(
      () => undefined,
      (thrown) => thrown
    )
    const read = transport === 'JSONRPC' ? readRefusal({ body: { code: error?.envelopeCode, data: error?.data } }) : undefined
    return { status: fetchImpl.last?.status, error, text: String(error?.message), read }
  }
  return { send, stored: async () => (await node.queue.usage(sleeper.eidHex)).messages }
}

async function clientOf(url: string, transport: Transport, fetchImpl: typeof fetch): Promise<Client> {
  const card = AgentCard.fromJSON(await (await fetch(`${url}/.well-known/agent-card.json`)).json())
  const [known] = card.supportedInterfaces
  const rpcUrl = card.supportedInterfaces.find(({ protocolBinding }) => protocolBinding === transport)?.url ?? known?.url ?? url
  const at = transport === 'JSONRPC' ? rpcUrl : url
  card.supportedInterfaces = [
    { ...known, url: at, protocolBinding: transport, protocolVersion: '1.0' } as (typeof card.supportedInterfaces)[number]
  ]
  const transports = [transport === 'JSONRPC' ? new JsonRpcTransportFactory({ fetchImpl }) : new RestTransportFactory({ fetchImpl })]
  return await new ClientFactory({ transports }).createFromAgentCard(card)
}

describe.each<Transport>(['JSONRPC', 'HTTP+JSON'])('the official client over %s', (transport) => {
  it('[OD-19] [OD-44] [OD-45] [OD-46] [OD-47] reads asleep and each full bound apart, with the status, and what was queued is on disk', async () => {
    const { send, stored } = await bench(transport, { messagesMax: 3, messagesPerPeerMax: 2 })
    const answers = [
      await send('a-1', ANNA),
      await send('a-2', ANNA),
      await send('a-3', ANNA),
      await send('b-1', BERT),
      await send('b-2', BERT)
    ]
    expect(answers.map(({ status }) => status)).toEqual([503, 503, 429, 503, 507])
    expect(await stored()).toBe(3)
    const told = answers.map(({ read, text }) =>
      read === undefined ? /^(\w+):.*queued: (true|false)/.exec(text)?.slice(1).join(' ') : `${read.token} ${read.queued}`
    )
    const asleep = 'agent_asleep true'
    expect(told).toEqual([asleep, asleep, 'asleep_queue_full false', asleep, 'asleep_queue_full false'])
    if (transport === 'JSONRPC') expect([answers[2]?.read?.kind, answers[4]?.read?.kind]).toEqual(['peer', 'messages'])
    for (const { error } of answers) expect(error.name).not.toContain('PushNotification')
  })

  it('[OD-45] [G-07] reads 507 for the bound on bytes and 413 for what fits no mailbox', async () => {
    const { send, stored } = await bench(transport, { bytesMax: 100 })
    const full = await send('m-1', ANNA)
    const large = await send('m-2', ANNA, 'x'.repeat(1_100_000))
    expect([full.status, large.status]).toEqual([507, 413])
    expect([full.error, large.error].every((error) => error instanceof Error)).toBe(true)
    expect(await stored()).toBe(0)
  })

  it('[OD-28] is refused without a token that holds: 401, and nothing is stored', async () => {
    const { send, stored } = await bench(transport)
    const refused = await send('m-1', { token: 'wrong' })
    expect(refused.status).toBe(401)
    expect(refused.error).toBeInstanceOf(Error)
    expect(await stored()).toBe(0)
  })
})
