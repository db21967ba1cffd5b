import { SFC_SCOPE, type SfcBlock, sfcDifference, sfcShortfall } from './sfc.ts'

export type ContractVerdict = { readonly kind: 'accept' } | { readonly kind: 'refuse'; readonly field: string }

/** What the name of a contract's absence is where a field is named. */
export const NO_BLOCK = 'block'

export type SfcScope = keyof typeof SFC_SCOPE
/** Names of the scopes, bit by bit, as people write them. */
export const SFC_SCOPE_NAMES = {
  'read-ese': 'READ_ESE',
  'write-ese': 'WRITE_ESE',
  'send-messages': 'SEND_MESSAGES',
  'create-tasks': 'CREATE_TASKS',
  stream: 'STREAM',
  mailbox: 'MAILBOX',
  relay: 'RELAY'
} as const satisfies Record<string, SfcScope>
export type SfcScopeName = keyof typeof SFC_SCOPE_NAMES

export function scopeBits(names: readonly SfcScopeName[]): number {
  return names.reduce((bits, name) => bits | SFC_SCOPE[SFC_SCOPE_NAMES[name]], 0)
}

export function scopeNames(bits: number): SfcScopeName[] {
  return (Object.keys(SFC_SCOPE_NAMES) as SfcScopeName[]).filter((name) => (bits & SFC_SCOPE[SFC_SCOPE_NAMES[name]]) !== 0)
}

/**
 * The initiator's judgement of what NEG offers (protocol/README.md §6, SFC block): as it is or not at all. At a resume only the stored block will do; for a
 * new session the first field that falls short of the needs is named, or {@link NO_BLOCK} where a plain session is offered.
 */
export function judgeOffer(
  offer: SfcBlock | undefined,
  asked: { readonly stored: SfcBlock } | { readonly needs: Partial<SfcBlock> }
): ContractVerdict {
  if (offer === undefined) return { kind: 'refuse', field: NO_BLOCK }
  const field = 'stored' in asked ? sfcDifference(offer, asked.stored) : shortfall(offer, asked.needs)
  return field === undefined ? { kind: 'accept' } : { kind: 'refuse', field }
}

/** A session of no seconds is none. */
function shortfall(offer: SfcBlock, needs: Partial<SfcBlock>): string | undefined {
  return sfcShortfall(offer, { ...needs, sessionSecondsMax: Math.max(1, needs.sessionSecondsMax ?? 0) })
}

/** The responder's judgement at a resume: the block that ACK ratifies is the stored one, or both have none. @returns the field that differs */
export function resumeDifference(acked: SfcBlock | undefined, stored: SfcBlock | undefined): string | undefined {
  if (acked === undefined || stored === undefined) return acked === stored ? undefined : NO_BLOCK
  return sfcDifference(acked, stored)
}
