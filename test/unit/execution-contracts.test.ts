import { describe, expect, it } from 'vitest'
import { digestOf, resultDigest } from '../../protocol/ecc/digests.ts'
import type { CapabilityContract } from '../../protocol/ecc/objects.ts'
import { readReceipt } from '../../protocol/ecc/objects.ts'
import { EDGE_CLOUD_CONTRACT_ALIAS, EDGE_CLOUD_CONTRACT_URI } from '../../protocol/ecc/uris.ts'
import { A2aError } from '../../src/a2a/a2a-error.ts'
import { taskJson } from '../../src/a2a/projection.ts'
import { parseConfig } from '../../src/config/load.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { ExecutionContracts } from '../../src/ecc/execution-contracts.ts'
import { checkSideEffects, nodeContracts } from '../../src/ecc/node-contracts.ts'
import { bindExecution, standingOf } from '../../src/ecc/required-execution.ts'
import { RookeryError } from '../../src/errors.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { createTodos } from '../../src/tasks/level-todos.ts'
import type { JsonObject, TodoCreate } from '../../src/tasks/todo.ts'
import { openLevelStore, principal, tempDir, testAgent, textMessage } from '../support/a2a-fixture.ts'
import { aContract, someRequirements } from '../support/ecc-values.ts'

const AGENT = testAgent(1)
const NOW = Date.parse('2026-11-30T10:00:00.000Z')
const URI = EDGE_CLOUD_CONTRACT_URI

function request(requirements: object | undefined, more: JsonObject = {}): JsonObject {
  return textMessage('m-1', 'bake', { ...(requirements === undefined ? {} : { metadata: { [URI]: requirements as JsonObject } }), ...more })
}

const able = (more: object = {}) => someRequirements({ maxSideEffect: 'reversible', ...more })

function contractsOf(contract: CapabilityContract | undefined, clock = new ManualClock(NOW)) {
  const held = { contract }
  const contracts = new ExecutionContracts({ contractOf: () => held.contract, signerOf: () => AGENT.signer, crypto: nodeCrypto, clock })
  return { contracts, held, clock }
}

function refusalOf(run: () => unknown): A2aError {
  try {
    run()
  } catch (error) {
    if (error instanceof A2aError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

describe('before anything is done', () => {
  const { contracts } = contractsOf(aContract())
  const admit = (message: JsonObject, extensions = [URI] as string[]) => contracts.admit(AGENT.eidHex, { message, extensions })

  it('[ECC-06] [ECC-09] [G-64] is core A2A without activation, whatever the message carries', () => {
    expect(admit(request(able()), [])).toBeUndefined()
    expect(admit(request({ nonsense: 1 }), ['urn:other'])).toBeUndefined()
    expect(contractsOf(undefined).contracts.admit(AGENT.eidHex, { message: request({}), extensions: [URI] })).toBeUndefined()
  })

  it('[G-64] gives a receipt to who activates without requirements', () => {
    expect(admit(request(undefined))).toMatchObject({
      uri: URI,
      dedupKey: undefined,
      execution: { site: { siteId: 's1' }, replaySafe: 'yes' }
    })
  })

  it('[G-63] answers in the spelling that was activated', () => {
    expect(admit(request(able()), [EDGE_CLOUD_CONTRACT_ALIAS])?.execution.uri).toBe(EDGE_CLOUD_CONTRACT_ALIAS)
  })

  it('[ECC-15] [G-66] refuses what is malformed as InvalidParams, with the member', () => {
    const error = refusalOf(() => admit(request({ ...able(), region: 'eu' })))
    expect(error).toMatchObject({ reason: 'INVALID_PARAMS', code: -32602, violations: [{ field: `message.metadata["${URI}"].region` }] })
  })

  it('[ECC-15] [G-66] refuses what is not met as UnsupportedOperation, with the first constraint that fails', () => {
    const error = refusalOf(() => admit(request(able({ dataClassification: 'restricted', allowedSites: ['device'] }))))
    expect(error).toMatchObject({
      reason: 'UNSUPPORTED_OPERATION',
      code: -32004,
      metadata: { extension: URI, cause: 'CLASSIFICATION_NOT_ACCEPTED', field: 'dataClassification' }
    })
    expect(error.toJsonRpc()).toMatchObject({ data: [{ reason: 'UNSUPPORTED_OPERATION', domain: 'a2a-protocol.org' }] })
  })

  it('[ECC-03] [ECC-27] puts the contract on the card, as something nobody has to understand', () => {
    expect(contracts.extension(AGENT.eidHex)).toMatchObject([{ uri: URI, required: false, params: aContract() }])
    expect(contracts.extension(AGENT.eidHex)[0]?.description).toContain('experimental')
    expect(contractsOf(undefined).contracts.extension(AGENT.eidHex)).toEqual([])
  })
})

async function withTodos(contract: CapabilityContract, run: (w: Awaited<ReturnType<typeof openTodos>>) => Promise<void>): Promise<void> {
  const dir = tempDir()
  const opened = await openTodos(dir.path, contract)
  try {
    await run(opened)
  } finally {
    await opened.todos.stop()
    await opened.store.close()
    dir.dispose()
  }
}

async function openTodos(path: string, contract: CapabilityContract) {
  const { contracts, held, clock } = contractsOf(contract)
  const store = await openLevelStore(path)
  const todos = await createTodos({ store, crypto: nodeCrypto, clock, random: systemRandom, logger: silentLogger, gate: contracts })
  const create = async (message: JsonObject, more: Partial<TodoCreate> = {}) => {
    const admission = contracts.admit(AGENT.eidHex, { message, extensions: [URI] })
    return await todos.create({
      agent: AGENT.eidHex,
      caller: principal(2),
      message,
      door: 'library',
      ...(admission === undefined ? {} : { execution: admission.execution }),
      ...(admission?.dedupKey === undefined ? {} : { dedupKey: admission.dedupKey }),
      ...more
    })
  }
  const claim = () => todos.claim(AGENT.eidHex, 'library:t', { leaseMs: 60_000 })
  return { contracts, held, clock, store, todos, create, claim }
}

const ARTIFACTS = [{ artifactId: 'rolls', parts: [{ text: 'three rolls' }, { raw: 'AAEC' }] }]

describe('work under a contract', () => {
  it('[ECC-05] [G-68] ends with a receipt whose digests recompute, signed where the contract says so', async () => {
    await withTodos(aContract(), async ({ create, claim, clock, todos }) => {
      const requirements = able({ requiredVerification: ['result-digest-sha256'], requiredAttestation: ['signed-receipt-ed25519'] })
      const { todo } = await create(request(requirements))
      await claim()
      clock.advance(250)
      const done = await todos.complete(todo.id, 'library:t', ARTIFACTS)
      expect(done.state).toBe('done')
      const task = taskJson(done)
      const [artifact] = task.artifacts as JsonObject[]
      expect(artifact?.extensions).toEqual([URI])
      const receipt = ((artifact as JsonObject).metadata as JsonObject)[URI]
      expect(readReceipt(receipt)).toMatchObject({ ok: true })
      expect(receipt).toMatchObject({
        taskId: todo.id,
        messageId: 'm-1',
        latencyMs: 250,
        contractDigest: digestOf(aContract()),
        requirementsDigest: digestOf(requirements),
        resultDigest: resultDigest({ artifacts: ARTIFACTS }),
        verifierStatus: 'passed',
        sideEffects: { class: 'reversible', replaySafe: false }
      })
      const bound = { message: request(requirements), requirements, contract: aContract() }
      expect(standingOf(nodeCrypto, bound, { task, activated: [URI], agent: AGENT.eid })).toMatchObject({ status: 'verified' })
      const other = () => standingOf(nodeCrypto, bound, { task, activated: [URI], agent: testAgent(3).eid })
      expect(other).toThrow(
        expect.objectContaining({ code: 'EXECUTION_UNVERIFIED', data: expect.objectContaining({ fault: 'ATTESTATION_INVALID' }) })
      )
    })
  })

  it('[ECC-05] puts the receipt on the status where the end brings no artifact', async () => {
    await withTodos(aContract(), async ({ create, claim, todos }) => {
      const { todo } = await create(request(able()))
      await claim()
      await todos.progress(todo.id, 'library:t', { artifact: ARTIFACTS[0] as JsonObject })
      const done = await todos.complete(todo.id, 'library:t', [])
      expect(done.statusMessage).toMatchObject({ metadata: { [URI]: { resultDigest: resultDigest({ artifacts: ARTIFACTS }) } } })
      const bound = { message: request(able()), requirements: able(), contract: aContract() }
      expect(standingOf(nodeCrypto, bound, { task: taskJson(done), activated: [URI], agent: AGENT.eid })).toMatchObject({
        status: 'verified'
      })
    })
  })

  it('[ECC-09] has no trace of the extension where it was not activated', async () => {
    await withTodos(aContract(), async ({ todos, claim }) => {
      const { todo } = await todos.create({ agent: AGENT.eidHex, caller: principal(2), message: request(able()), door: 'library' })
      await claim()
      const done = await todos.complete(todo.id, 'library:t', ARTIFACTS)
      expect(done.execution).toBeUndefined()
      expect(done.artifacts).toEqual(ARTIFACTS)
    })
  })

  it('[G-67] fails where the required latency was overrun, with result and receipt', async () => {
    await withTodos(aContract(), async ({ create, claim, clock, todos }) => {
      const { todo } = await create(request(able({ maxLatencyMs: 2_000 })))
      await claim()
      clock.advance(2_001)
      const late = await todos.complete(todo.id, 'library:t', ARTIFACTS)
      expect(late).toMatchObject({ state: 'failed', failure: expect.stringContaining('2001 ms') })
      expect(taskJson(late)).toMatchObject({
        status: { state: 'TASK_STATE_FAILED' },
        artifacts: [{ artifactId: 'rolls', metadata: { [URI]: { verifierStatus: 'failed', latencyMs: 2_001 } } }]
      })
    })
  })

  it('[ECC-08] [G-70] is rejected at the claim where the contract ended or changed meanwhile; nobody gets to do it', async () => {
    const changes: [string, CapabilityContract | undefined, object][] = [
      ['CONTRACT_EXPIRED', aContract({ notAfter: '2026-11-30T09:00:00.000Z' }), {}],
      ['SITE_NOT_ALLOWED', aContract({ sites: [{ siteId: 'c', kind: 'cloud', regions: ['DE'] }] }), { allowedSites: ['edge'] }],
      ['CONTRACT_CHANGED', aContract({ contractId: 'other' }), { contractDigest: digestOf(aContract()) }],
      ['CONTRACT_CHANGED', undefined, {}]
    ]
    for (const [cause, contract, more] of changes) {
      await withTodos(aContract(), async ({ create, claim, held, todos }) => {
        const { todo } = await create(request(able(more)))
        held.contract = contract
        expect(await claim()).toBeUndefined()
        const rejected = await todos.get(todo.id)
        expect(rejected).toMatchObject({ state: 'rejected', attempt: 0, statusMessage: { metadata: { [URI]: { version: '1.0', cause } } } })
        const bound = { message: request(able(more)), requirements: able(more), contract: aContract() }
        const standing = standingOf(nodeCrypto, bound, { task: taskJson(rejected as never), activated: [URI], agent: AGENT.eid })
        expect(standing).toMatchObject({ status: 'rejected', cause })
      })
    }
  })

  it('[G-67] [G-70] is rejected at the claim where the required latency passed while it waited', async () => {
    await withTodos(aContract(), async ({ create, claim, clock, todos }) => {
      const { todo } = await create(request(able({ maxLatencyMs: 2_000 })))
      clock.advance(2_001)
      expect(await claim()).toBeUndefined()
      expect((await todos.get(todo.id))?.statusMessage).toMatchObject({
        metadata: { [URI]: { cause: 'LATENCY_EXCEEDED', field: 'maxLatencyMs' } }
      })
    })
  })

  it('[ECC-14] begins work that is not replay-safe once, and work with a key as often as it takes', async () => {
    for (const [key, expected] of [
      [undefined, 'failed'],
      ['inv-2026-000117', 'pending']
    ] as const) {
      for (const end of ['retry', 'release', 'lease'] as const) {
        await withTodos(aContract(), async ({ create, claim, clock, todos }) => {
          const { todo } = await create(request(able(key === undefined ? {} : { idempotencyKey: key })))
          await claim()
          if (end === 'retry') await todos.retry(todo.id, 'library:t', 'the oven went out')
          else if (end === 'release') await todos.release(todo.id, 'library:t')
          else {
            const moved = Promise.withResolvers<void>()
            todos.watch(todo.id, () => moved.resolve())
            clock.advance(60_001)
            await moved.promise
          }
          expect([key, end, (await todos.get(todo.id))?.state]).toEqual([key, end, expected])
        })
      }
    }
  })

  it('[G-69] knows a request by its key in place of its messageId: the same again is the same Todo, another one an error', async () => {
    await withTodos(aContract(), async ({ create, todos }) => {
      const requirements = able({ idempotencyKey: 'inv-2026-000117' })
      const first = await create(request(requirements))
      const again = await create({ ...request(requirements), messageId: 'm-2' })
      expect(again).toEqual({ todo: first.todo, created: false })
      await expect(create({ ...request(requirements), messageId: 'm-3', parts: [{ text: 'other' }] })).rejects.toMatchObject({
        code: 'MESSAGE_ID_REUSED'
      })
      const elsewhere = await create(request(requirements), { caller: principal(3) })
      expect(elsewhere.created).toBe(true)
      expect(await todos.count({ agent: AGENT.eidHex })).toBe(2)
    })
  })

  it('[ECC-07] goes on under what was agreed as it began; a question’s answer agrees anew', async () => {
    await withTodos(aContract(), async ({ create, claim, todos }) => {
      const { todo } = await create(request(able({ maxLatencyMs: 9_000 })))
      await claim()
      const answer = (messageId: string, more: object) => ({ ...request(able(more)), messageId, taskId: todo.id })
      await create(answer('m-2', { maxLatencyMs: 5_000 }))
      expect((await todos.get(todo.id))?.execution).toMatchObject({ messageId: 'm-1', requirements: { maxLatencyMs: 9_000 } })
      await todos.ask(todo.id, 'library:t', { for: 'input', message: { parts: [{ text: 'rye?' }] } })
      await create(answer('m-3', { maxLatencyMs: 4_000 }))
      expect((await todos.get(todo.id))?.execution).toMatchObject({ messageId: 'm-3', requirements: { maxLatencyMs: 4_000 } })
    })
  })

  it('[G-70] is born rejected where its contract does not hold when it is handed over late', async () => {
    await withTodos(aContract(), async ({ contracts, todos, claim, clock }) => {
      const message = request(able({ maxLatencyMs: 2_000 }))
      clock.advance(2_001)
      const late = contracts.admitLate(AGENT.eidHex, { message, extensions: [URI] }, NOW)
      if (late === undefined || !('refused' in late)) throw new Error('it was admitted')
      const { todo } = await todos.create({
        agent: AGENT.eidHex,
        caller: principal(2),
        message,
        door: 'asleep-queue',
        refused: late.refused
      })
      expect(todo).toMatchObject({
        state: 'rejected',
        attempt: 0,
        seq: 2,
        statusMessage: { metadata: { [URI]: { cause: 'LATENCY_EXCEEDED' } } }
      })
      expect(await claim()).toBeUndefined()
      const same = await todos.create({ agent: AGENT.eidHex, caller: principal(2), message, door: 'library' })
      expect(same).toMatchObject({ created: false, todo: { id: todo.id } })
    })
  })
})

describe('[ECC-13] what leaves in metadata', () => {
  it('never holds what a handler, a message or the settings know beside it', async () => {
    const canary = 'canary-7f3a-secret'
    await withTodos(aContract(), async ({ create, claim, contracts, todos }) => {
      const message = request(able(), { parts: [{ text: canary }, { data: { token: canary } }] })
      const { todo } = await create({ ...message, metadata: { ...(message.metadata as JsonObject), 'x-token': canary } })
      await claim()
      const done = await todos.complete(todo.id, 'library:t', [{ artifactId: 'a', parts: [{ text: canary }], metadata: { token: canary } }])
      const receipt = ((done.artifacts[0] as JsonObject).metadata as JsonObject)[URI] as JsonObject
      expect(JSON.stringify(receipt)).not.toContain(canary)
      expect(Object.keys(receipt).sort()).toEqual(
        'attestation contractDigest finishedAt latencyMs messageId networkMode receiptId requirementsDigest resultDigest sideEffects site startedAt taskId verification verifierStatus version'.split(
          ' '
        )
      )
      expect(JSON.stringify(contracts.extension(AGENT.eidHex))).not.toContain(canary)
    })
  })

  it('refuses settings and requirements with a member more, so that none can slip through', () => {
    const secret = { ...aContract(), apiKey: 'canary-7f3a-secret' }
    expect(() => parseConfig({ edgeCloud: { contracts: { baker: secret as never } } })).toThrow(
      expect.objectContaining({ code: 'CONFIG_INVALID', field: 'edgeCloud.contracts.baker.apiKey' })
    )
    const card = { capabilities: { extensions: [{ uri: URI, params: aContract() }] } } as unknown as JsonObject
    const bind = () =>
      bindExecution({ card, message: textMessage('m'), requirements: { ...able(), host: '10.0.0.7' }, policy: {}, nowMs: NOW })
    expect(bind).toThrow(expect.objectContaining({ code: 'REQUIREMENTS_INVALID', field: 'requirements.host', value: '10.0.0.7' }))
  })
})

describe('a caller’s side', () => {
  const card = (contract: unknown = aContract()) =>
    ({ capabilities: { extensions: [{ uri: URI, params: contract }] } }) as unknown as JsonObject
  const bind = (more: object = {}) =>
    bindExecution({ card: card(), message: textMessage('m'), requirements: able(), policy: {}, nowMs: NOW, ...more })
  const thrown = (run: () => unknown): RookeryError => {
    try {
      run()
    } catch (error) {
      if (error instanceof RookeryError) return error
      throw error
    }
    throw new Error('nothing was refused')
  }

  it('[ECC-04] [ECC-06] carries the requirements and names the extension', () => {
    expect(bind().message).toMatchObject({ metadata: { [URI]: able() }, extensions: [URI] })
  })

  it('[ECC-11] refuses by its own policy what matches formally, before anything is sent', () => {
    expect(thrown(() => bind({ policy: { allowedSites: ['device'] } }))).toMatchObject({
      code: 'EXECUTION_REFUSED',
      field: 'requirements.allowedSites'
    })
    expect(thrown(() => bind({ policy: { maxSideEffect: 'none' } }))).toMatchObject({
      code: 'EXECUTION_REFUSED',
      data: { cause: 'SIDE_EFFECT_NOT_PERMITTED' }
    })
    expect(thrown(() => bind({ requirements: able({ allowedRegions: ['US'] }), policy: { allowedRegions: ['EU'] } }))).toMatchObject({
      code: 'POLICY_REFUSED'
    })
    expect(bind({ policy: { requiredAttestation: ['signed-receipt-ed25519'] } }).requirements).toMatchObject({
      requiredAttestation: ['signed-receipt-ed25519']
    })
  })

  it.each([
    ['CONTRACT_MISSING', { card: { capabilities: {} } as JsonObject }],
    ['CONTRACT_INVALID', { card: card({ ...aContract(), sites: [] }) }],
    ['REQUIREMENTS_INVALID', { requirements: { version: '1.0' } }],
    ['EXECUTION_REFUSED', { requirements: able({ networkMode: 'offline' }) }]
  ])('[ECC-10] sends nothing where the card gives no ground: %s', (code, more) => {
    expect(thrown(() => bind(more)).code).toBe(code)
  })

  it('[G-64] never takes as met what was not activated, or came without a receipt', () => {
    const task = { id: 't', status: { state: 'TASK_STATE_COMPLETED' }, artifacts: ARTIFACTS } as unknown as JsonObject
    const standing = (activated: string[]) => () => standingOf(nodeCrypto, bind(), { task, activated, agent: AGENT.eid })
    expect(thrown(standing([])).code).toBe('EXECUTION_NOT_ACTIVATED')
    expect(thrown(standing(['urn:other'])).code).toBe('EXECUTION_NOT_ACTIVATED')
    expect(thrown(standing([URI]))).toMatchObject({ code: 'EXECUTION_UNVERIFIED', data: { fault: 'RECEIPT_MISSING' } })
    for (const [state, status] of [
      ['TASK_STATE_WORKING', 'pending'],
      ['TASK_STATE_FAILED', 'failed'],
      ['TASK_STATE_REJECTED', 'failed']
    ]) {
      const other = { ...task, status: { state } } as unknown as JsonObject
      expect(standingOf(nodeCrypto, bind(), { task: other, activated: [URI], agent: AGENT.eid })).toEqual({ status })
    }
  })
})

describe('the contract in the settings', () => {
  it.each(Object.keys(aContract()).filter((member) => member !== 'notAfter'))(
    '[ECC-03] refuses the start where %s is missing, and says so',
    (member) => {
      const { [member]: _, ...rest } = { ...aContract() } as Record<string, unknown>
      expect(() => parseConfig({ edgeCloud: { contracts: { baker: rest as never } } })).toThrow(
        expect.objectContaining({
          code: 'CONFIG_INVALID',
          field: `edgeCloud.contracts.baker.${member}`,
          message: expect.stringContaining('is missing'),
          remedy: expect.stringContaining(`edgeCloud.contracts.baker.${member}`)
        })
      )
    }
  )

  it('[ECC-03] names the value that is wrong, and promises nothing that this node cannot do', () => {
    const config = (contract: object) => () =>
      parseConfig({ edgeCloud: { contracts: { baker: { ...aContract(), ...contract } as never } } })
    expect(config({ latency: { typicalMs: 9, maxMs: 3 } })).toThrow(
      expect.objectContaining({ field: 'edgeCloud.contracts.baker.latency.typicalMs', value: 9 })
    )
    expect(config({ verification: ['deterministic-rerun'] })).toThrow(
      expect.objectContaining({ field: 'edgeCloud.contracts.baker.verification[0]', value: 'deterministic-rerun' })
    )
    expect(config({})).not.toThrow()
    expect(() => parseConfig({ edgeCloud: { policy: { allowedSites: ['fog'] } as never } })).toThrow(
      expect.objectContaining({ field: 'edgeCloud.policy.allowedSites[0]', value: 'fog' })
    )
    expect(() => parseConfig({ edgeCloud: { policy: { idempotencyKey: 'inv-2026-000117' } as never } })).toThrow(/single requests/)
  })

  it('[G-72] does not let a contract understate what the handler declares', () => {
    const config = parseConfig({ edgeCloud: { contracts: { [AGENT.name]: aContract() as never } } })
    expect(() => checkSideEffects(config, AGENT, 'reversible')).not.toThrow()
    expect(() => checkSideEffects(config, AGENT, 'consequential')).toThrow(
      expect.objectContaining({
        code: 'CONTRACT_UNDERSTATES',
        field: `edgeCloud.contracts.${AGENT.name}.sideEffects.class`,
        value: 'reversible'
      })
    )
    expect(() => checkSideEffects(config, testAgent(2), 'consequential')).not.toThrow()
    const contracts = nodeContracts({
      config,
      agents: { list: () => [AGENT, testAgent(2)] },
      crypto: nodeCrypto,
      clock: new ManualClock(NOW)
    })
    expect(contracts.extension(AGENT.eidHex)).toHaveLength(1)
    expect(contracts.extension(testAgent(2).eidHex)).toEqual([])
  })
})
