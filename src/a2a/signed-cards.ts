import { toHex, utf8 } from '../../protocol/bytes.ts'
import { canonicalJson } from '../../protocol/canonical-json.ts'
import { signCard } from '../../protocol/card/card-signature.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { type EidHex, eid, eidHex } from '../../protocol/identity/eid.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { JsonObject } from '../tasks/todo.ts'
import { cardText } from './agent-card.ts'

/** Of one agent; the one used longest ago goes. Extended cards differ by caller. */
const KEPT_PER_AGENT = 64

export interface SignedCard {
  card: JsonObject
  /** the exact text that is served */
  text: string
  /** strong entity tag, quoted */
  etag: string
}

/**
 * Cards of our agents with their signatures. While an EID that an agent had is still known somewhere and its key is kept, that key signs too, so that who knows
 * the agent by it verifies the card as well (protocol/README.md §9). A card that did not change is signed once.
 */
export class SignedCards {
  readonly #crypto: CryptoProvider
  readonly #kept = new WeakMap<LocalAgent, { signers: string; cards: Map<string, SignedCard> }>()

  constructor(crypto: CryptoProvider) {
    this.#crypto = crypto
  }

  /** @param card - in ProtoJSON, by the settings in effect */
  of(agent: LocalAgent, card: JsonObject): SignedCard {
    const plain = cardText(card)
    const signers = [agent.signer, ...(agent.retiringSigners?.() ?? [])]
    const names = signers.map(({ publicKey }): EidHex => eidHex(eid(publicKey))).join()
    let kept = this.#kept.get(agent)
    if (kept?.signers !== names) {
      kept = { signers: names, cards: new Map() }
      this.#kept.set(agent, kept)
    }
    const { cards } = kept
    let signed = cards.get(plain)
    if (signed === undefined) {
      const whole = signCard(JSON.parse(plain) as JsonObject, signers) as unknown as JsonObject
      const text = canonicalJson(whole)
      signed = { card: whole, text, etag: etagOf(this.#crypto, text) }
    }
    cards.delete(plain)
    cards.set(plain, signed)
    if (cards.size > KEPT_PER_AGENT) cards.delete(cards.keys().next().value as string)
    return signed
  }
}

export function etagOf(crypto: CryptoProvider, text: string): string {
  return `"${toHex(crypto.sha256(utf8(text))).slice(0, 32)}"`
}
