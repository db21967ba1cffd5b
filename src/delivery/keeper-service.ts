import { equals } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { verifyConfirmation } from '../../protocol/delivery/confirmation.ts'
import {
  type KeeperAnswer,
  type KeeperRequest,
  PAGE_OBJECT_OVERHEAD_BYTES,
  PAGE_OBJECTS_MAX,
  PAGE_OVERHEAD_BYTES
} from '../../protocol/delivery/keeper-messages.ts'
import { MAILBOX_MESSAGE_BYTES_MAX, type MailboxRefusal } from '../../protocol/delivery/mailbox.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { openRotation } from '../../protocol/identity/rotation.ts'
import { openRecord } from '../../protocol/records/envelope.ts'
import { type MailRecord, mailType } from '../../protocol/records/mail.ts'
import { RookeryError } from '../errors.ts'
import type { Successions } from '../identity/successions.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Session } from '../sessions/session.ts'
import type { KeeperStore } from './keeper-store.ts'
import { mailboxChannelOf } from './mailbox-channel.ts'

/** A page is filled up to this, though one object alone may be larger: audiences of few means fetch too. */
export const PAGE_BYTES_DEFAULT = 256 * 1_024

export interface KeeperServiceComponents {
  keeper: KeeperStore
  crypto: CryptoProvider
  clock: Clock
  logger: Logger
  /** all EIDs that the peer of a session is known by: what it was before, too */
  identities: (peer: Eid) => readonly Eid[]
  /** which EIDs gave way to which, as this node was shown */
  successions: Pick<Successions, 'newest' | 'note'>
}

/**
 * Serves KEEP, FETCH, RELEASE and ASK inside a session. Who asks is the EID that the session proved: an audience is given and lets go of its own mail alone, an
 * issuer hears of its own alone.
 */
export function serveKeeper(session: Session, components: KeeperServiceComponents): void {
  const { clock, logger } = components
  mailboxChannelOf(session, clock).serveKeeper(async (request) => {
    try {
      const answer = await answerTo(components, session.remote, request)
      return 'code' in answer ? { type: 'refusal', ...answer, nowMs: clock.nowMs() } : answer
    } catch (error) {
      if (error instanceof ProtocolError) return { type: 'refusal', code: 'invalid', reason: error.code, nowMs: clock.nowMs() }
      logger.error({ err: error, code: error instanceof RookeryError ? error.code : 'INTERNAL' }, 'a keeper request failed')
      return { type: 'refusal', code: 'store-failed', nowMs: clock.nowMs() }
    }
  })
}

type Refused = Omit<MailboxRefusal, 'nowMs'>

async function answerTo(components: KeeperServiceComponents, peer: Eid, request: KeeperRequest): Promise<KeeperAnswer | Refused> {
  const { keeper, crypto, clock, identities } = components
  const audience = eidHex(peer)
  switch (request.type) {
    case 'keep': {
      const rotations = await follow(components, peer, request.rotations ?? [])
      if (!keeper.mayEngage(audience)) return { code: 'not-keeping' }
      const mail = request.mail === undefined ? undefined : openMail(crypto, request.mail, { audience: peer, nowMs: clock.nowMs() })
      const engagement = await keeper.engage(audience, request.bounds, { mail, rotations })
      return engagement === undefined ? { code: 'not-keeping' } : { type: 'kept', bounds: engagement.bounds, untilMs: engagement.untilMs }
    }
    case 'fetch':
      return await page(keeper, audience, request.after)
    case 'release': {
      const mine = (eid: Eid) => identities(peer).some((one) => eidHex(one) === eidHex(eid))
      const confirmed = request.confirmations.map((bytes) => ({
        bytes,
        confirmation: verifyConfirmation(crypto, bytes, { isAudience: (by, aud) => mine(by) && mine(aud) })
      }))
      return { type: 'released', count: await keeper.release(audience, confirmed) }
    }
    case 'ask': {
      const told = await Promise.all(identities(peer).map((issuer) => keeper.tell(eidHex(issuer), eidHex(request.audience), request.ids)))
      const confirmations = told.flatMap((one) => one.confirmations)
      const rotations = confirmations.length === 0 ? [] : keeper.rotationsOf(eidHex(request.audience))
      return {
        type: 'told',
        held: told.flatMap(({ held }) => held),
        confirmations,
        ...(rotations.length === 0 ? {} : { rotations })
      }
    }
  }
}

/**
 * An audience that took another EID without having met this keeper since: the certificates lead from one that the owner named to the one that the session proved. Looked
 * into only where one of them is of an EID that is kept for, so that strangers have nothing written down.
 * @returns those that count
 * @throws ProtocolError those of a certificate; `EID_MISMATCH` for a chain that does not hang together, or that forks from what is known
 */
async function follow(
  { keeper, crypto, successions }: KeeperServiceComponents,
  peer: Eid,
  certificates: readonly Uint8Array[]
): Promise<readonly Uint8Array[]> {
  if (certificates.length === 0) return []
  const rotations = certificates.map((bytes) => openRotation(crypto, bytes))
  const from = rotations.findIndex(({ old }) => keeper.mayEngage(eidHex(old)))
  if (from < 0) return []
  const chain = rotations.slice(from)
  for (const [i, { old, new: next }] of chain.entries()) {
    const known = successions.newest(old)
    const isFork = !equals(known, old) && !chain.some((one) => equals(one.new, known))
    if (isFork || !equals(next, chain[i + 1]?.old ?? peer)) {
      throw new ProtocolError('EID_MISMATCH', 'the rotations do not lead from an EID that is kept for to the one that asks', {
        field: 'mailbox.rots'
      })
    }
  }
  for (const rotation of chain) await successions.note(rotation)
  return certificates.slice(from)
}

/** @throws ProtocolError as for any record; `FIELD_INVALID` for a tombstone, which its owner puts */
function openMail(crypto: CryptoProvider, bytes: Uint8Array, { audience, nowMs }: { audience: Eid; nowMs: number }): MailRecord {
  const record = openRecord(crypto, mailType, bytes, { nowMs, belongs: ({ eid }) => eidHex(eid) === eidHex(audience) })
  if (record.payload.gone !== true) return record
  throw new ProtocolError('FIELD_INVALID', 'a keeper puts no tombstone again', { field: 'mailbox.mail' })
}

async function page(keeper: KeeperStore, audience: EidHex, after: number): Promise<KeeperAnswer> {
  const objects: Uint8Array[] = []
  let bytes = PAGE_OVERHEAD_BYTES
  let next = after
  for await (const { record, sequence } of keeper.held(audience, after)) {
    const size = record.object.length + PAGE_OBJECT_OVERHEAD_BYTES
    const room = objects.length === 0 ? MAILBOX_MESSAGE_BYTES_MAX : PAGE_BYTES_DEFAULT
    if (objects.length >= PAGE_OBJECTS_MAX || bytes + size > room) return { type: 'page', objects, next, more: true }
    objects.push(record.object)
    bytes += size
    next = sequence
  }
  return { type: 'page', objects, next, more: false }
}
