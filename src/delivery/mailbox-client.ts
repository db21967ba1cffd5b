import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { DEPOSIT_OBJECT_BYTES_MAX, type MailboxRefusal, verifyReceipt } from '../../protocol/delivery/mailbox.ts'
import { decodeObject } from '../../protocol/delivery/object.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { Session } from '../sessions/session.ts'
import { mailboxChannelOf } from './mailbox-channel.ts'

/** `stored`: the keeper signed that it holds the object, synced, until then. Nothing else means stored. */
export type DepositResult =
  | { status: 'stored'; receipt: Uint8Array; storedUntilMs: number }
  | { status: 'refused'; refusal: MailboxRefusal }

/**
 * Deposits a sealed object with the agent at the other end of `session` and checks its receipt: signature, hash, name, audience.
 * @throws RookeryError `RECEIPT_INVALID` (data.reason), `RECEIPT_TIMEOUT`, `DEPOSITS_PENDING`, `SESSION_LOST`; or the signal's reason
 * @throws ProtocolError when `object` itself is none
 */
export async function depositObject(
  session: Session,
  object: Uint8Array,
  { crypto, clock, signal, timeoutMs }: { crypto: CryptoProvider; clock: Clock; signal?: AbortSignal; timeoutMs?: number }
): Promise<DepositResult> {
  const decoded = decodeObject(object, { bytesMax: DEPOSIT_OBJECT_BYTES_MAX })
  const answer = await mailboxChannelOf(session, clock).deposit(object, {
    ...(signal !== undefined ? { signal } : {}),
    ...(timeoutMs !== undefined ? { timeoutMs } : {})
  })
  if (answer.type === 'refusal') {
    const { code, kind, reason, nowMs } = answer
    return { status: 'refused', refusal: { code, kind, reason, nowMs } }
  }
  try {
    const { storedUntilMs } = verifyReceipt(crypto, answer.receipt, {
      keeper: session.remote,
      deposited: { object: decoded, bytes: object }
    })
    return { status: 'stored', receipt: answer.receipt, storedUntilMs }
  } catch (cause) {
    if (!(cause instanceof ProtocolError)) throw cause
    throw new RookeryError('RECEIPT_INVALID', `the receipt does not stand: ${cause.message}`, {
      kind: 'refused',
      cause,
      data: { reason: cause.code },
      remedy: 'the message does not count as stored; send it again or by another way'
    })
  }
}
