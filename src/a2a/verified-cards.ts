import { verifyCard } from '../../protocol/card/card-signature.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, eidToDid } from '../../protocol/identity/eid.ts'
import type { Logger } from '../platform/logger.ts'
import type { JsonObject } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'
import type { RemoteAgents } from './edge.ts'

export interface VerifiedCardsInit {
  crypto: CryptoProvider
  logger: Logger
  /** `required`: a card that its agent did not sign is refused; `log`: it is taken, and a warning says so (ECC-12). Asked each time */
  verify: () => 'required' | 'log'
  /** the EID that an agent has now, as far as this node was shown: nobody speaks for it by one that it gave up */
  newest: (of: Eid) => Eid
}

/** Agents of other nodes whose cards count only with a signature by their present key. A card is verified once, however often it is asked for. */
export function withVerifiedCards(remote: RemoteAgents, { crypto, logger, verify, newest }: VerifiedCardsInit): RemoteAgents {
  const verified = new WeakSet<JsonObject>()
  return {
    call: (...args) => remote.call(...args),
    stream: (...args) => remote.stream(...args),
    async card(from, to, options) {
      const agent = newest(to)
      const card = await remote.card(from, agent, options)
      if (verified.has(card)) return card
      try {
        verifyCard(crypto, card, agent)
        verified.add(card)
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error
        if (verify() === 'required') throw notTrusted(error, agent)
        logger.warn({ agent: eidToDid(agent), code: error.code, field: error.field }, 'a card that its agent did not sign was taken')
      }
      return card
    }
  }
}

function notTrusted(cause: ProtocolError, agent: Eid): A2aError {
  return new A2aError('INVALID_AGENT_RESPONSE', `${cause.message}; it is not taken`, {
    metadata: {
      cause: cause.code,
      did: eidToDid(agent),
      remedy: 'ask the agent’s owner; to take such cards all the same, set cards.verify to log'
    },
    cause
  })
}
