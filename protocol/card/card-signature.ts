import { equals } from '../bytes.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import type { Eid } from '../identity/eid.ts'
import { type DetachedJws, signJws, verifyJws } from '../jws.ts'
import { parseStrictJson } from '../strict-json.ts'
import { canonicalCard } from './canonical-card.ts'

/** A card with more is refused unread: each costs a verification. */
export const CARD_SIGNATURES_MAX = 8
/** The text of a card, in characters. */
export const CARD_CHARS_MAX = 262_144

/**
 * An A2A card with one AgentCardSignature by each signer, in the order given; signatures that it had are replaced (protocol/README.md §9).
 * @throws ProtocolError `FIELD_INVALID` for what is no card
 */
export function signCard<Card extends object>(card: Card, signers: readonly Signer[]): Card & { signatures: DetachedJws[] } {
  const text = canonicalCard(card)
  return { ...card, signatures: signers.map((signer) => signJws(signer, text)) }
}

/**
 * Checks that a card is signed by the agent that it is for. One good signature is enough: the others may be by keys that came before or after.
 * @param card - as it was received: its text, in which no member may stand twice, or what was read of it
 * @param agent - whose card it must be; where its EID was rotated, the one that it has now
 * @returns the card as it was read
 * @throws ProtocolError `SIGNATURE_INVALID` (field `signatures`: none by this agent, or that one does not verify), `FIELD_INVALID`, `TOO_LARGE`
 */
export function verifyCard(crypto: CryptoProvider, card: unknown, agent: Eid): Record<string, unknown> {
  if (typeof card === 'string' && card.length > CARD_CHARS_MAX) {
    throw new ProtocolError('TOO_LARGE', `a card has at most ${CARD_CHARS_MAX} characters`, { field: 'card' })
  }
  const value = typeof card === 'string' ? parseStrictJson(card) : card
  const text = canonicalCard(value)
  const { signatures } = value as { signatures?: unknown }
  if (signatures !== undefined && !Array.isArray(signatures)) throw unsigned('has signatures that are no list', 'FIELD_INVALID')
  if (signatures === undefined || signatures.length === 0) throw unsigned('is not signed')
  if (signatures.length > CARD_SIGNATURES_MAX) throw unsigned(`has more than ${CARD_SIGNATURES_MAX} signatures`)
  if (!signatures.some((one) => isBy(crypto, one, text, agent))) throw unsigned('has no valid signature by its agent')
  return value as Record<string, unknown>
}

function isBy(crypto: CryptoProvider, jws: unknown, text: string, agent: Eid): boolean {
  if (!isJws(jws)) return false
  try {
    return equals(verifyJws(crypto, jws, text), agent)
  } catch (error) {
    if (error instanceof ProtocolError) return false
    throw error
  }
}

function isJws(value: unknown): value is DetachedJws {
  if (typeof value !== 'object' || value === null) return false
  const { protected: header, signature } = value as Record<string, unknown>
  return typeof header === 'string' && typeof signature === 'string'
}

function unsigned(problem: string, code: 'SIGNATURE_INVALID' | 'FIELD_INVALID' = 'SIGNATURE_INVALID'): ProtocolError {
  return new ProtocolError(code, `the agent card ${problem}`, { field: 'signatures' })
}
