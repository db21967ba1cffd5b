import { AgentCard, type Task } from '@a2a-js/sdk'
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client'
import { afterEach, describe, expect, it } from 'vitest'
import { verifyCard } from '../../protocol/card/card-signature.ts'
import { digestOf } from '../../protocol/ecc/digests.ts'
import { receiptIn } from '../../protocol/ecc/metadata.ts'
import type { CapabilityContract } from '../../protocol/ecc/objects.ts'
import { verifyExecution } from '../../protocol/ecc/receipts.ts'
import { EDGE_CLOUD_CONTRACT_ALIAS, EDGE_CLOUD_CONTRACT_URI } from '../../protocol/ecc/uris.ts'
import { verifyJws } from '../../protocol/jws.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { AgentHandler } from '../../src/tasks/handler.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import { fetchAs, post, rpc, startA2aNode, type TestAgent, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'
import { aContract, someRequirements } from '../support/ecc-values.ts'

const ANNA = testAgent(1)
const URI = EDGE_CLOUD_CONTRACT_URI
const cleanups: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function node(contract: CapabilityContract | 'none' = aContract()) {
  const dir = tempDir()
  cleanups.push(() => dir.dispose())
  const bert = testAgent(2)
  let runs = 0
  const handler: AgentHandler = async ({ message }) => {
    runs++
    return {
      artifacts: [{ artifactId: 'a', parts: [...(message.parts as JsonObject[]), { raw: 'AAEC', filename: 'x.bin' }] }]
    }
  }
  const contracts: { [name: string]: CapabilityContract | undefined } = { [bert.name]: contract === 'none' ? undefined : contract }
  const one = await startA2aNode({ dir: dir.path, agents: [ANNA, bert], handlers: { [bert.name]: handler }, contracts })
  cleanups.push(() => one.stop())
  return { ...one, bert, contracts, runs: () => runs, url: `${one.edge.url}/agents/${bert.did}` }
}

const able = (more: object = {}) =>
  someRequirements({ maxSideEffect: 'reversible', requiredVerification: ['result-digest-sha256'], ...more })
const request = (requirements: object | undefined, messageId = 'm-1', more: JsonObject = {}) =>
  textMessage(messageId, 'three rolls', {
    ...(requirements === undefined ? {} : { metadata: { [URI]: requirements as JsonObject }, extensions: [URI] }),
    ...more
  })
const ACTIVE = { 'A2A-Extensions': URI }
const send = (message: JsonObject) => rpc('SendMessage', { message })

function verified(task: JsonObject, requirements: object, bert: TestAgent, messageId = 'm-1') {
  const artifacts = task.artifacts as JsonObject[]
  const receipt = receiptIn({ artifacts })
  return verifyExecution({
    contract: aContract(),
    requirements,
    receipt: receipt?.ok === true ? receipt.value : undefined,
    result: { artifacts },
    messageId,
    taskId: String(task.id),
    verify: (attestation, text) => verifyJws(nodeCrypto, attestation, text).every((byte, i) => byte === bert.eid[i])
  })
}

describe('a contract over HTTP', () => {
  it('[ECC-01] [ECC-03] [ECC-12] [ECC-27] stands on a card that its agent signed and that A2A’s own types keep', async () => {
    const { bert, url } = await node()
    const text = await (await fetch(`${url}/.well-known/agent-card.json`)).text()
    const card = verifyCard(nodeCrypto, text, bert.eid) as { capabilities: { extensions: JsonObject[] } }
    const entry = card.capabilities.extensions.find(({ uri }) => uri === URI)
    expect(entry).toMatchObject({ required: false, params: aContract() })
    const kept = AgentCard.toJSON(AgentCard.fromJSON(JSON.parse(text))) as { capabilities: { extensions: JsonObject[] } }
    expect(kept.capabilities.extensions.find(({ uri }) => uri === URI)?.params).toEqual(aContract())
  })

  it.each(['JSONRPC', 'HTTP+JSON'])(
    '[ECC-05] [ECC-06] [TD-R3] the official client gets a receipt that verifies, over %s',
    async (binding) => {
      const { bert, url } = await node()
      const requirements = able({ requiredAttestation: ['signed-receipt-ed25519'], maxLatencyMs: 60_000 * 5 })
      const plain = fetchAs(ANNA)
      const fetchImpl: typeof fetch = (input, init) => {
        const headers = new Headers(init?.headers)
        headers.set('A2A-Extensions', URI)
        return plain(input, { ...init, headers })
      }
      const card = AgentCard.fromJSON(await (await fetch(`${url}/.well-known/agent-card.json`)).json())
      card.supportedInterfaces = card.supportedInterfaces.filter(({ protocolBinding }) => protocolBinding === binding)
      const transports = [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })]
      const client = await new ClientFactory({ transports }).createFromAgentCard(card)
      const { Message, Task: TaskType } = await import('@a2a-js/sdk')
      const answer = await client.sendMessage({ message: Message.fromJSON(request(requirements)) } as never)
      const task = TaskType.toJSON(answer as Task) as JsonObject
      expect(plain.last?.headers.get('a2a-extensions')).toBe(URI)
      expect(verified(task, requirements, bert)).toMatchObject({ outcome: 'verified', receipt: { site: { region: 'DE-BE' } } })
    }
  )

  it('[ECC-05] streams the receipt with the end of the work, and names the extension in the stream’s header', async () => {
    const { bert, url } = await node()
    const requirements = able()
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0', Authorization: `Bearer ${ANNA.token}`, ...ACTIVE },
      body: JSON.stringify(rpc('SendStreamingMessage', { message: request(requirements) }))
    })
    expect(response.headers.get('a2a-extensions')).toBe(URI)
    const events = (await response.text())
      .split('\n')
      .flatMap((line) => (line.startsWith('data:') ? [JSON.parse(line.slice(5)).result] : []))
    const artifact = events.flatMap(({ artifactUpdate, task }) => artifactUpdate?.artifact ?? task?.artifacts ?? []).at(-1)
    const id = events[0].task.id
    expect(verified({ id, artifacts: [artifact] }, requirements, bert)).toMatchObject({ outcome: 'verified' })
    expect(events.at(-1)).toMatchObject({ statusUpdate: { status: { state: 'TASK_STATE_COMPLETED' } } })
  })

  it('[ECC-09] [G-64] answers as core A2A does without activation: the same with a contract and without one', async () => {
    const bodies: string[] = []
    for (const contract of [aContract(), 'none'] as const) {
      const { url } = await node(contract)
      if (contract === 'none') expect(await (await fetch(`${url}/.well-known/agent-card.json`)).text()).not.toContain(URI)
      const answer = await post(url, send(request(able({ dataClassification: 'restricted' }))), { agent: ANNA })
      expect(answer.headers.get('a2a-extensions')).toBeNull()
      const { task } = answer.body.result
      expect(JSON.stringify(task.artifacts)).not.toContain(URI)
      bodies.push(
        answer.text
          .replaceAll(task.id, 'T')
          .replaceAll(task.contextId, 'C')
          .replace(/"timestamp":"[^"]*"/, '')
      )
    }
    expect(bodies[0]).toBe(bodies[1])
  })

  it('[G-64] tells who activates an extension that the agent does not have nothing of it', async () => {
    const dir = tempDir()
    cleanups.push(() => dir.dispose())
    const one = await startA2aNode({ dir: dir.path, agents: [ANNA, testAgent(2)] })
    cleanups.push(() => one.stop())
    const answer = await post(`${one.edge.url}/agents/${testAgent(2).did}`, send(request(able())), { agent: ANNA, headers: ACTIVE })
    expect([answer.status, answer.headers.get('a2a-extensions')]).toEqual([200, null])
    expect(answer.body.result.task.status.state).toBe('TASK_STATE_COMPLETED')
  })

  it('[ECC-08] [ECC-15] [G-66] refuses before anything is done: no Todo, no call, an error of A2A’s own', async () => {
    const { url, runs, todos, bert } = await node()
    const refused = await post(url, send(request(able({ allowedRegions: ['US'] }))), { agent: ANNA, headers: ACTIVE })
    expect(refused.body.error).toMatchObject({
      code: -32004,
      data: [{ reason: 'UNSUPPORTED_OPERATION', metadata: { extension: URI, cause: 'REGION_NOT_ALLOWED', field: 'allowedRegions' } }]
    })
    const malformed = await post(url, send(request({ ...able(), sla: 'gold' })), { agent: ANNA, headers: ACTIVE })
    expect(malformed.body.error).toMatchObject({
      code: -32602,
      data: [{ reason: 'INVALID_PARAMS' }, { fieldViolations: [{ description: 'is not known here' }] }]
    })
    const rest = await post(`${url}/message:send`, { message: request(able({ networkMode: 'offline' })) }, { agent: ANNA, headers: ACTIVE })
    expect([rest.status, rest.body.error.status, rest.body.error.details[0].metadata.cause]).toEqual([
      400,
      'FAILED_PRECONDITION',
      'NETWORK_MODE_UNSUPPORTED'
    ])
    expect([runs(), await todos.count({ agent: bert.eidHex })]).toEqual([0, 0])
  })

  it('[ECC-10] [ECC-24] a perfect match lets nobody in', async () => {
    const { url, runs } = await node()
    const stranger = await post(url, send(request(able())), { headers: ACTIVE })
    expect(stranger.status).toBe(401)
    expect(runs()).toBe(0)
  })

  it('[G-63] understands the other spelling of the URI and answers in it', async () => {
    const { url } = await node()
    const message = textMessage('m-1', 'x', { metadata: { [EDGE_CLOUD_CONTRACT_ALIAS]: able() as never } })
    const answer = await post(url, send(message), { agent: ANNA, headers: { 'A2A-Extensions': `urn:x, ${EDGE_CLOUD_CONTRACT_ALIAS}` } })
    expect(answer.headers.get('a2a-extensions')).toBe(EDGE_CLOUD_CONTRACT_ALIAS)
    expect(Object.keys(answer.body.result.task.artifacts[0].metadata)).toEqual([EDGE_CLOUD_CONTRACT_ALIAS])
  })

  it('[ECC-14] [G-69] runs a request with a key once, whatever its messageId, and refuses another request under it', async () => {
    const { url, runs, bert } = await node()
    const requirements = able({ idempotencyKey: 'inv-2026-000117' })
    const first = await post(url, send(request(requirements)), { agent: ANNA, headers: ACTIVE })
    const again = await post(url, send(request(requirements, 'm-2')), { agent: ANNA, headers: ACTIVE })
    expect(again.body.result.task).toEqual(first.body.result.task)
    expect(verified(again.body.result.task, requirements, bert, 'm-2')).toMatchObject({
      outcome: 'verified',
      receipt: { sideEffects: { replaySafe: true } }
    })
    const other = await post(url, send(request(requirements, 'm-3', { parts: [{ text: 'four rolls' }] })), { agent: ANNA, headers: ACTIVE })
    expect(other.body.error).toMatchObject({
      code: -32004,
      data: [{ metadata: { cause: 'IDEMPOTENCY_CONFLICT', field: 'idempotencyKey' } }]
    })
    expect(runs()).toBe(1)
  })
})

describe('the order of refusals', () => {
  it('[G-61] is credential, size, contract, dedup, bucket, asleep bounds: each names its own, and only a message that makes a task costs a token', async () => {
    const { url, bert, grants, queue } = await node()
    const { credential } = await grants.create({ agent: bert.eidHex, name: 'desk', limits: { burst: 1, perMin: 1 } })
    const caller = { token: credential as string }
    const ask = async (message: JsonObject, as: { token: string } | undefined = caller) => {
      const answer = await post(url, send(message), { agent: as, headers: ACTIVE })
      return [answer.status, answer.body.error?.code ?? answer.body.result.task.status.state, answer.headers.has('retry-after')]
    }
    const large = 'x'.repeat(3 * 1_048_576)
    const unmet = able({ allowedSites: ['device'] })
    expect(await ask(request(unmet, 'm-0', { parts: [{ text: large }] }), { token: 'nobody' })).toEqual([401, -31401, false])
    expect(await ask(request(unmet, 'm-0', { parts: [{ text: large }] }))).toEqual([413, -31006, false])
    expect(await ask(request(unmet, 'm-0'))).toEqual([200, -32004, false])
    expect(await ask(request(able(), 'm-1'))).toEqual([200, 'TASK_STATE_COMPLETED', false])
    // the one token is gone
    expect(await ask(request(unmet, 'm-2'))).toEqual([200, -32004, false])
    expect(await ask(request(able(), 'm-1'))).toEqual([200, 'TASK_STATE_COMPLETED', false])
    expect(await ask(request(able(), 'm-2'))).toEqual([429, -31005, true])
    bert.reachability = { mode: 'sleep' }
    expect(await ask(request(able(), 'm-2'))).toEqual([429, -31005, true])
    expect((await queue.usage(bert.eidHex)).messages).toBe(0)
  })
})

describe('requirements of what waits for a sleeping agent', () => {
  it('[ECC-08] are checked before it is kept, and hold when it wakes: the task has a receipt', async () => {
    const { url, bert, drain, runs, queue } = await node()
    bert.reachability = { mode: 'sleep' }
    const refused = await post(url, send(request(able({ allowedSites: ['device'] }))), { agent: ANNA, headers: ACTIVE })
    expect(refused.body.error).toMatchObject({ code: -32004, data: [{ metadata: { cause: 'SITE_NOT_ALLOWED' } }] })
    expect((await queue.usage(bert.eidHex)).messages).toBe(0)
    const requirements = able({ contractDigest: digestOf(aContract()) })
    const kept = await post(url, send(request(requirements)), { agent: ANNA, headers: ACTIVE })
    expect([kept.status, runs()]).toEqual([503, 0])
    bert.reachability = { mode: 'always_on' }
    expect(await drain.drain(bert)).toMatchObject({ accepted: 1 })
    const answer = await post(url, send(request(requirements)), { agent: ANNA, headers: ACTIVE })
    expect(verified(answer.body.result.task, requirements, bert)).toMatchObject({ outcome: 'verified' })
    expect(runs()).toBe(1)
  })

  it('[G-70] are checked again at the wake: what does not hold any more is rejected, with the constraint, and nobody runs it', async () => {
    const { url, bert, drain, runs, contracts } = await node()
    bert.reachability = { mode: 'sleep' }
    const requirements = able({ allowedSites: ['edge'] })
    expect((await post(url, send(request(requirements)), { agent: ANNA, headers: ACTIVE })).status).toBe(503)
    contracts[bert.name] = aContract({ sites: [{ siteId: 'c1', kind: 'cloud', regions: ['DE'] }] })
    bert.reachability = { mode: 'always_on' }
    expect(await drain.drain(bert)).toMatchObject({ accepted: 1 })
    const list = await post(url, rpc('ListTasks', {}), { agent: ANNA })
    expect(list.body.result.tasks).toMatchObject([
      {
        status: {
          state: 'TASK_STATE_REJECTED',
          message: { metadata: { [URI]: { version: '1.0', cause: 'SITE_NOT_ALLOWED', field: 'allowedSites' } } }
        }
      }
    ])
    expect(runs()).toBe(0)
  })

  it('[ECC-09] are core A2A where the message was kept without activation', async () => {
    const { url, bert, drain, runs, contracts } = await node()
    bert.reachability = { mode: 'sleep' }
    await post(url, send(request(able({ allowedSites: ['edge'] }))), { agent: ANNA })
    contracts[bert.name] = aContract({ sites: [{ siteId: 'c1', kind: 'cloud', regions: ['DE'] }] })
    bert.reachability = { mode: 'always_on' }
    expect(await drain.drain(bert)).toMatchObject({ accepted: 1 })
    const answer = await post(url, send(request(able({ allowedSites: ['edge'] }))), { agent: ANNA })
    expect(answer.body.result.task.status.state).toBe('TASK_STATE_COMPLETED')
    expect(JSON.stringify(answer.body.result.task.artifacts)).not.toContain(URI)
    expect(runs()).toBe(1)
  })
})
