import type { JsonObject } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'
import { CARD_MAX_AGE_SEC, cardText, rpcUrlOf, withRpcUrl } from './agent-card.ts'
import { isBearer } from './bearer.ts'
import type { EdgeHost } from './edge-host.ts'
import type { Route } from './edge-routes.ts'
import type { Exchange } from './http-exchange.ts'
import { etagOf, SignedCards } from './signed-cards.ts'

/** Agent cards, for anyone: of our agents, and of others through their nodes. */
export function cardRoutes(host: EdgeHost): Route[] {
  const signed = new SignedCards(host.components.crypto)
  return [{ method: 'GET', path: '/.well-known/agent-card.json', handle: (exchange) => sendCard(host, signed, exchange) }]
}

async function sendCard(host: EdgeHost, signed: SignedCards, exchange: Exchange): Promise<void> {
  const { local } = host.components
  const target = host.targetOf(exchange)
  const agent = host.agentAt(target)
  const { text, etag } = agent === undefined ? await foreignText(host, exchange) : signed.of(agent, local.card(agent))
  exchange.setHeader('ETag', etag)
  exchange.setHeader('Cache-Control', `max-age=${CARD_MAX_AGE_SEC}`)
  const known = (exchange.header('if-none-match') ?? '').split(',').map((one) => one.trim().replace(/^W\//, ''))
  if (known.includes(etag) || known.includes('*')) exchange.res.writeHead(304).end()
  else exchange.sendText(200, text)
}

async function foreignText(host: EdgeHost, exchange: Exchange): Promise<{ text: string; etag: string }> {
  const text = cardText(await foreignCard(host, exchange))
  return { text, etag: etagOf(host.components.crypto, text) }
}

async function foreignCard(host: EdgeHost, exchange: Exchange): Promise<JsonObject> {
  const { remote, authenticate } = host.components
  if (remote === undefined) throw new A2aError('AGENT_UNKNOWN', 'no such agent on this node')
  const asker = isBearer(exchange.header('authorization'), authenticate) ? 'local-agent' : 'anyone'
  const card = await remote.card(host.defaultAgent(), host.targetOf(exchange), { signal: exchange.gone, asker })
  return withRpcUrl(card, rpcUrlOf(host.publicUrl, String(exchange.did)))
}
