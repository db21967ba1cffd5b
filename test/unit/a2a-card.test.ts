import { AgentCard } from '@a2a-js/sdk'
import { describe, expect, it } from 'vitest'
import { OFFLINE_DELIVERY_EXTENSION_URI } from '../../protocol/delivery/refusals.ts'
import { A2A_CODES, A2aError, fromRemoteError, toA2aError } from '../../src/a2a/a2a-error.ts'
import { agentCard, cardText, PSS_BINDING_URI, REACHABILITY_EXTENSION_URI, rpcUrlOf, withRpcUrl } from '../../src/a2a/agent-card.ts'
import { bearerAuthenticator } from '../../src/a2a/bearer.ts'
import { legacyRequest } from '../../src/a2a/legacy-request.ts'
import { shownState, taskFromJson, taskJson, taskState } from '../../src/a2a/projection.ts'
import { readServiceParameters } from '../../src/a2a/service-parameters.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { RookeryError } from '../../src/errors.ts'
import { TODO_STATES } from '../../src/tasks/states.ts'
import type { JsonObject, Todo } from '../../src/tasks/todo.ts'
import { TEST_BOUNDS, testAgent } from '../support/a2a-fixture.ts'

const ANNA = testAgent(1)
const SKILL = { id: 'echo', name: 'Echo', description: 'Gives back', tags: ['echo'] }
const card = (more: Partial<Parameters<typeof agentCard>[0]> = {}) =>
  agentCard({ agent: ANNA, skills: [SKILL], version: '0.1.0', rpcUrl: 'http://127.0.0.1:1/agents/x', bounds: undefined, ...more })

describe('agent card', () => {
  it('has every required member, and comes through the SDK’s types unchanged', () => {
    const text = cardText(card({ agent: { ...ANNA, reachability: { mode: 'sleep' } }, bounds: TEST_BOUNDS }))
    const read = JSON.parse(text) as JsonObject
    for (const name of [
      'name',
      'description',
      'version',
      'supportedInterfaces',
      'capabilities',
      'defaultInputModes',
      'defaultOutputModes',
      'skills',
      'securitySchemes',
      'securityRequirements'
    ]) {
      expect(read).toHaveProperty(name)
    }
    expect(cardText(AgentCard.toJSON(AgentCard.fromJSON(read)) as JsonObject)).toBe(text)
    expect(read.securitySchemes).toMatchObject({ bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } })
    expect(read.capabilities).toMatchObject({ streaming: false, pushNotifications: false, extendedAgentCard: true })
    expect(read.supportedInterfaces).toEqual([
      { url: 'http://127.0.0.1:1/agents/x', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url: 'http://127.0.0.1:1/agents/x', protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
      { url: `rookery:${ANNA.did}`, protocolBinding: PSS_BINDING_URI, protocolVersion: '1.0' }
    ])
  })

  it('never has an empty description, whatever its owner wrote', () => {
    expect(card({ agent: { ...ANNA, description: '' } }).description).not.toBe('')
  })

  it('[OD-30] names the mode and the bounds in force, and only where the mode queues', () => {
    const bounds = { ...TEST_BOUNDS, messagesMax: 7, ttlMaxMs: 1_000 }
    const window = { periodSec: 3_600, openSec: 300, offsetSec: 17 }
    const { capabilities } = card({ agent: { ...ANNA, reachability: { mode: 'hourly_wake', window } }, bounds })
    expect((capabilities as JsonObject).extensions).toMatchObject([
      { uri: OFFLINE_DELIVERY_EXTENSION_URI, required: false, params: { mode: 'hourly_wake' } },
      {
        uri: REACHABILITY_EXTENSION_URI,
        required: false,
        params: {
          mode: 'hourly_wake',
          name: 'PeriodicallyAvailable',
          window,
          queue: { messagesMax: 7, bytesMax: 2_097_152, messagesPerPeerMax: 50, ttlMaxSec: 1 }
        }
      }
    ])
    expect((card().capabilities as JsonObject).extensions).toMatchObject([
      { uri: REACHABILITY_EXTENSION_URI, params: { mode: 'always_on', name: 'AlwaysAvailable' } }
    ])
  })

  it('[F026] puts the public URL before the path once, whatever slashes it ends with', () => {
    for (const publicUrl of ['https://example.net/a2a/tick', 'https://example.net/a2a/tick/', 'https://example.net/a2a/tick//']) {
      expect(rpcUrlOf(publicUrl, ANNA.did)).toBe(`https://example.net/a2a/tick/agents/${ANNA.did}`)
    }
  })

  it('serves a remote card under the caller’s own URL, without what else its owner listed for HTTP', () => {
    const foreign = {
      ...card(),
      supportedInterfaces: [{ url: 'http://evil.example', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }, 7]
    }
    expect(withRpcUrl(foreign, 'http://mine').supportedInterfaces).toEqual([
      { url: 'http://mine', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url: 'http://mine', protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' }
    ])
    const [, , pss] = card().supportedInterfaces as JsonObject[]
    expect(withRpcUrl(card(), 'http://mine').supportedInterfaces).toEqual([
      { url: 'http://mine', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url: 'http://mine', protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
      pss
    ])
  })
})

describe('a Task as a view of its Todo', () => {
  const todo: Todo = {
    id: 't',
    agent: ANNA.eidHex,
    caller: 'eid:x',
    contextId: 'c',
    state: 'pending',
    revision: 1,
    createdAtMs: 0,
    changedAtMs: 1_000,
    dedupKey: 'k',
    digest: 'd',
    door: 'library',
    history: [{ messageId: 'm', role: 'ROLE_USER', parts: [{ data: null }, { text: 'x' }] }],
    artifacts: [{ artifactId: 'a', parts: [{ data: null }] }],
    attempt: 0
  }

  it('[TD-09] [TD-33] maps every state to its own', () => {
    const mapped = TODO_STATES.map(taskState)
    expect(new Set(mapped).size).toBe(TODO_STATES.length)
    expect(Object.fromEntries(TODO_STATES.map((state, at) => [state, mapped[at]]))).toMatchObject({
      pending: 'TASK_STATE_SUBMITTED',
      claimed: 'TASK_STATE_WORKING',
      done: 'TASK_STATE_COMPLETED',
      canceled: 'TASK_STATE_CANCELED'
    })
  })

  it('[G-57] stays WORKING while another attempt waits', () => {
    expect(shownState({ ...todo, attempt: 1 })).toBe('TASK_STATE_WORKING')
    expect(taskJson({ ...todo, attempt: 2 })).toMatchObject({ metadata: { attempt: 2 }, status: { timestamp: '1970-01-01T00:00:01.000Z' } })
  })

  it('keeps data that is null through the SDK’s types', () => {
    const task = taskFromJson(taskJson(todo))
    expect(task.history[0]?.parts[0]?.content).toEqual({ $case: 'data', value: null })
    expect(task.artifacts[0]?.parts[0]?.content).toEqual({ $case: 'data', value: null })
  })
})

describe('small readers', () => {
  it('[F013] reads versions by major and minor, and extensions once each', () => {
    for (const [header, version] of [
      ['1.0.3', '1.0'],
      ['01.00', '1.0'],
      [undefined, '0.3'],
      ['', '0.3'],
      ['  ', '0.3'],
      ['abc', 'abc'],
      ['1.0, 1.0', '1.0, 1.0']
    ] as const) {
      expect(readServiceParameters(header, undefined).version).toBe(version)
    }
    expect(readServiceParameters('1.0', ' a, b ,a,,').extensions).toEqual(['a', 'b'])
    expect(readServiceParameters('1.0', Array.from({ length: 100 }, (_, i) => i).join()).extensions).toHaveLength(32)
  })

  it('leaves alone what is no send of 0.3', () => {
    const request = { id: 1, method: 'tasks/get', params: { id: 't' } }
    expect(legacyRequest(request)).toBe(request)
    expect(legacyRequest({ id: 1, method: 'message/send', params: { message: { parts: [3], role: 'agent' } } }).params).toEqual({
      message: { role: 'agent', parts: [3] }
    })
  })

  it('[OD-31] finds the agent of a token, and none for any other text', () => {
    const agents = [testAgent(1), testAgent(2)]
    const authenticate = bearerAuthenticator({ tokens: () => agents.map((agent) => ({ agent, token: agent.token })), crypto: nodeCrypto })
    expect(agents.map(({ token }) => authenticate(token)?.name)).toEqual(['agent-1', 'agent-2'])
    for (const other of ['', agents[0]?.token.slice(1), `${agents[0]?.token} `]) expect(authenticate(other as string)).toBeUndefined()
  })
})

describe('errors in the words of A2A', () => {
  it('keeps our numbers out of the ranges of JSON-RPC and A2A', () => {
    const ours = Object.values(A2A_CODES).filter((code) => code > -32000)
    expect(ours.length).toBeGreaterThan(5)
    for (const code of ours) expect(code).toBeGreaterThan(-32_000)
  })

  it('says nothing of the cause of an error that it does not know', () => {
    const error = toA2aError(new Error('secret path /home/x'))
    expect(JSON.stringify(error.toJsonRpc())).not.toContain('secret')
    expect(toA2aError(new RookeryError('SOMETHING', 'secret', { kind: 'internal' })).toJsonRpc()).toMatchObject({
      code: -32603,
      data: [{ metadata: { cause: 'SOMETHING' } }]
    })
  })

  it('reads its own errors back from another node, by reason', () => {
    const sent = new A2aError('RATE_LIMITED', 'slow down', {
      metadata: { cause: 'TODO_LIMIT' },
      violations: [{ field: 'f', description: 'd' }]
    })
    expect(fromRemoteError(sent.toJsonRpc() as unknown as JsonObject)).toMatchObject({
      reason: 'RATE_LIMITED',
      status: 429,
      metadata: { cause: 'TODO_LIMIT' },
      violations: [{ field: 'f', description: 'd' }]
    })
  })
})
