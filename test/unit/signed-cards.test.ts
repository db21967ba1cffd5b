import { describe, expect, it } from 'vitest'
import { verifyCard } from '../../protocol/card/card-signature.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { agentCard, withRpcUrl } from '../../src/a2a/agent-card.ts'
import type { RemoteAgents } from '../../src/a2a/edge.ts'
import { extendedCard } from '../../src/a2a/extended-card.ts'
import { SignedCards } from '../../src/a2a/signed-cards.ts'
import { withVerifiedCards } from '../../src/a2a/verified-cards.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import { type Logger, silentLogger } from '../../src/platform/logger.ts'
import type { JsonObject } from '../../src/tasks/todo.ts'
import { TEST_BOUNDS, testAgent } from '../support/a2a-fixture.ts'

const ANNA = testAgent(1)
const card = (agent: LocalAgent = ANNA, description = 'Bakes') =>
  agentCard({ agent: { ...agent, description }, skills: [], version: '1', rpcUrl: 'http://127.0.0.1:1/agents/x', bounds: TEST_BOUNDS })

/** Counts what it signs. */
function counting(agent: LocalAgent): { agent: LocalAgent; signed: () => number } {
  let signed = 0
  const sign = (message: Uint8Array) => {
    signed++
    return agent.signer.sign(message)
  }
  return { agent: { ...agent, signer: { publicKey: agent.signer.publicKey, sign } }, signed: () => signed }
}

describe('cards that are served', () => {
  it('[ECC-12] verify as the agent’s, in the very text that is served', () => {
    const { text, card: whole, etag } = new SignedCards(nodeCrypto).of(ANNA, card())
    expect(verifyCard(nodeCrypto, text, ANNA.eid)).toEqual(whole)
    expect(etag).toMatch(/^"[0-9a-f]{32}"$/)
    expect(() => verifyCard(nodeCrypto, text, testAgent(2).eid)).toThrow(ProtocolError)
  })

  it('are signed once while they do not change, and anew when they do', () => {
    const { agent, signed } = counting(ANNA)
    const cards = new SignedCards(nodeCrypto)
    const first = cards.of(agent, card())
    expect(cards.of(agent, card())).toBe(first)
    expect(signed()).toBe(1)
    const second = cards.of(agent, card(ANNA, 'Sleeps'))
    expect([signed(), second.etag === first.etag]).toEqual([2, false])
    for (let i = 0; i < 70; i++) cards.of(agent, card(ANNA, `Bakes ${i}`))
    cards.of(agent, card())
    expect(signed()).toBe(73)
  })

  it('[ECC-12] are signed by the key before too while it retires, so both names of the agent verify', () => {
    const cards = new SignedCards(nodeCrypto)
    const former = testAgent(2)
    const rotated: LocalAgent = { ...ANNA, retiringSigners: () => [former.signer] }
    const { text } = cards.of(rotated, card())
    expect(verifyCard(nodeCrypto, text, ANNA.eid)).toEqual(verifyCard(nodeCrypto, text, former.eid))
    let retiring = [former.signer]
    const later: LocalAgent = { ...ANNA, retiringSigners: () => retiring }
    cards.of(later, card())
    retiring = []
    expect(() => verifyCard(nodeCrypto, cards.of(later, card()).text, former.eid)).toThrow(ProtocolError)
  })

  it('lose their signatures with the URL that another node puts in', () => {
    const { card: whole } = new SignedCards(nodeCrypto).of(ANNA, card())
    expect(withRpcUrl(whole, 'http://mine')).not.toHaveProperty('signatures')
  })
})

describe('[TD-R1] [G-72] the extended card', () => {
  it('adds the limits in force for the caller and the class of side effects of each skill', () => {
    const open = { ...card(), skills: [{ id: 'bake', name: 'Bake', description: 'Bakes', tags: [] }] } as JsonObject
    const extended = extendedCard(open, { limits: { send: { burst: 20, perMinute: 10 } }, sideEffects: 'reversible' })
    const { extensions } = extended.capabilities as { extensions: JsonObject[] }
    expect(extensions.slice(-2)).toMatchObject([
      { uri: 'rookery:extension/limits/v1', required: false, params: { send: { burst: 20, perMinute: 10 } } },
      { uri: 'rookery:extension/side-effects/v1', required: false, params: { agent: 'reversible', skills: { bake: 'reversible' } } }
    ])
    expect(extensions).toHaveLength((open.capabilities as { extensions: JsonObject[] }).extensions.length + 2)
    expect(verifyCard(nodeCrypto, new SignedCards(nodeCrypto).of(ANNA, extended).text, ANNA.eid)).toMatchObject({ name: ANNA.name })
  })
})

describe('[TD-28] [TD-29] what a card says is on', () => {
  it('is what is on, in the flags and in every sentence', () => {
    for (const streaming of [true, false]) {
      for (const pushNotifications of [true, false]) {
        const made = agentCard({
          agent: ANNA,
          skills: [],
          version: '1',
          rpcUrl: 'http://x',
          bounds: undefined,
          streaming,
          pushNotifications
        })
        expect(made.capabilities).toMatchObject({ streaming, pushNotifications, extendedAgentCard: true })
        expect(JSON.stringify(made)).not.toMatch(/discovery[- ]only|no push|without history|stateTransitionHistory/i)
      }
    }
  })
})

describe('cards of agents elsewhere', () => {
  const good = new SignedCards(nodeCrypto).of(ANNA, card()).card
  const forged: JsonObject = { ...good, description: 'Steals' }
  const CALL = { signal: new AbortController().signal, asker: 'local-agent' } as const

  function remotes(served: JsonObject, verify: 'required' | 'log', newest = ANNA.eid) {
    const warnings: object[] = []
    const logger: Logger = { ...silentLogger, warn: (data: object) => void warnings.push(data), child: () => logger }
    const remote = { card: async () => served } as unknown as RemoteAgents
    return { warnings, remote: withVerifiedCards(remote, { crypto: nodeCrypto, logger, verify: () => verify, newest: () => newest }) }
  }

  it('[ECC-12] are taken where their agent signed them', async () => {
    const { remote, warnings } = remotes(good, 'required')
    expect(await remote.card(testAgent(2), ANNA.eid, CALL)).toBe(good)
    expect(await remote.card(testAgent(2), ANNA.eid, CALL)).toBe(good)
    expect(warnings).toEqual([])
  })

  it('[ECC-12] are refused by default where it did not, and where another key did', async () => {
    for (const [served, newest] of [
      [forged, ANNA.eid],
      [card(), ANNA.eid],
      [good, testAgent(2).eid]
    ] as const) {
      const { remote } = remotes(served, 'required', newest)
      await expect(remote.card(testAgent(2), ANNA.eid, CALL)).rejects.toMatchObject({
        reason: 'INVALID_AGENT_RESPONSE',
        code: -32006,
        metadata: { cause: 'SIGNATURE_INVALID', remedy: expect.stringContaining('cards.verify') }
      })
    }
  })

  it('[ECC-12] are taken all the same where a setting says so, and the log tells of each', async () => {
    const { remote, warnings } = remotes(forged, 'log')
    expect(await remote.card(testAgent(2), ANNA.eid, CALL)).toBe(forged)
    expect(warnings).toEqual([{ agent: ANNA.did, code: 'SIGNATURE_INVALID', field: 'signatures' }])
  })
})
