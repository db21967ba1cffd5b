import * as z from 'zod'
import { SFC_SCOPE_NAMES, type SfcScopeName, scopeBits, scopeNames } from '../../protocol/session/contract-policy.ts'
import { SFC_SITES, type SfcBlock } from '../../protocol/session/sfc.ts'

const U32_MAX = 0xffffffff
const U16_MAX = 0xffff
const u32 = z.int().min(0).max(U32_MAX)
const u16 = z.int().min(0).max(U16_MAX)
const scopes = z.array(z.enum(Object.keys(SFC_SCOPE_NAMES) as [SfcScopeName, ...SfcScopeName[]])).max(Object.keys(SFC_SCOPE_NAMES).length)

const fields = {
  site: z.enum(SFC_SITES),
  scopes,
  eseBytesMax: u32,
  messagesPerMinuteMax: u32,
  payloadBytesMax: u32,
  sessionSecondsMax: u32.min(1, 'must be at least 1: a session of no seconds is none'),
  storedBytesMax: u32,
  concurrentTasksMax: u16,
  region: u16
} as const

/** What a node offers whoever asks for a contract. Every member has a default, and all limits are finite. */
export const contractOffer = z.strictObject({
  site: fields.site.default('any'),
  scopes: fields.scopes.default(['send-messages', 'create-tasks', 'stream', 'mailbox']),
  eseBytesMax: fields.eseBytesMax.default(0),
  messagesPerMinuteMax: fields.messagesPerMinuteMax.default(600),
  payloadBytesMax: fields.payloadBytesMax.default(262_144),
  sessionSecondsMax: fields.sessionSecondsMax.default(86_400),
  storedBytesMax: fields.storedBytesMax.default(1_048_576),
  concurrentTasksMax: fields.concurrentTasksMax.default(16),
  region: fields.region.default(0)
})

/** What an initiator needs at least: members that are absent may be anything. */
export const contractNeeds = z.strictObject(fields).partial()

/** An SFC block, or a part of one, as people and programs write it: scopes by name. */
export type ContractNeeds = z.output<typeof contractNeeds>
export type ContractView = Omit<SfcBlock, 'scopes'> & { scopes: SfcScopeName[] }

export function blockOf(offer: z.output<typeof contractOffer>): SfcBlock {
  return { ...offer, scopes: scopeBits(offer.scopes) }
}

export function needsOf({ scopes, ...rest }: ContractNeeds): Partial<SfcBlock> {
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)) as Partial<SfcBlock>
  return scopes === undefined ? given : { ...given, scopes: scopeBits(scopes) }
}

export function viewOf(block: SfcBlock): ContractView {
  return { ...block, scopes: scopeNames(block.scopes) }
}
