import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { DEPOSIT_OBJECT_BYTES_MAX } from '../../protocol/delivery/mailbox.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import { depositObject } from '../delivery/mailbox-client.ts'
import type { OutgoingObjects } from '../delivery/outgoing.ts'
import { refusalOfMailbox } from '../delivery/queue-refusal.ts'
import { RookeryError } from '../errors.ts'
import { ownerPrincipal } from '../grants/principal.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import { noTracer, type Tracer } from '../platform/tracer.ts'
import type { SessionManager } from '../sessions/session.ts'
import type { Locators, LocatorView } from '../spaces/spaces.ts'
import type { JsonObject } from '../tasks/todo.ts'
import { DeliveryRefused } from './delivery-refused.ts'
import { extensionsOf, type KeepAsleep, sealSend } from './keep-asleep.ts'
import { checkParams } from './params.ts'
import { outcomeOfRefusal, type SendOutcome } from './send-message.ts'

export interface MailboxSendComponents {
  agents: { byEid(eid: Eid): LocalAgent | undefined }
  keep: KeepAsleep
  locators: Pick<Locators, 'resolve'>
  sessions: Pick<SessionManager, 'open'>
  outgoing: Pick<OutgoingObjects, 'seal' | 'keepReceipt'>
  crypto: CryptoProvider
  clock: Clock
  /** default: nothing is traced */
  tracer?: Tracer
}

/**
 * Puts a message straight into an agent's asleep queue, as a governed object, without asking for it to be handled first. The same message again is the
 * same object: its node answers the same receipt while it waits, and refuses it as a replay once it had its effect (OD-36).
 * @throws RookeryError `AGENT_UNKNOWN`, `DIAL_FAILED`, `RECEIPT_INVALID`, `MESSAGE_ID_REUSED`, …; A2aError for a message that is none
 */
export async function sendByMailbox(
  components: MailboxSendComponents,
  { from, to, message }: { from: LocalAgent; to: Eid; message: JsonObject },
  options: { signal?: AbortSignal } = {}
): Promise<SendOutcome> {
  const params: JsonObject = { message }
  checkParams('SendMessage', params)
  const local = components.agents.byEid(to)
  const refusal =
    local === undefined
      ? await depositRemote(components, { from, to, params }, options)
      : await components.keep({
          principal: ownerPrincipal(from),
          to: local,
          params,
          extensions: extensionsOf(message),
          retryAfterSec: undefined
        })
  return outcomeOfRefusal(new DeliveryRefused(refusal), { to, message })
}

/** What a deposit may meet when the peer's process is a new one; the same bytes once more do no harm. */
const PEER_GONE: ReadonlySet<string> = new Set(['SESSION_LOST', 'SESSION_CLOSED', 'RECEIPT_TIMEOUT', 'DIAL_FAILED', 'HANDSHAKE_FAILED'])

/** A session or an address that no longer stands is replaced once, through the newest locator. */
async function depositRemote(
  components: MailboxSendComponents,
  input: { from: LocalAgent; to: Eid; params: JsonObject },
  options: { signal?: AbortSignal }
): Promise<DeliveryRefused['refusal']> {
  const locator = await components.locators.resolve(input.to, options)
  try {
    return await depositAt(components, locator, input, options)
  } catch (error) {
    if (!(error instanceof RookeryError) || !PEER_GONE.has(error.code) || options.signal?.aborted === true) throw error
    const newest = await components.locators.resolve(input.to, { ...options, fresh: true })
    return await depositAt(components, newest, input, options)
  }
}

async function depositAt(
  { sessions, outgoing, crypto, clock, tracer = noTracer }: MailboxSendComponents,
  locator: LocatorView,
  { from, to, params }: { from: LocalAgent; to: Eid; params: JsonObject },
  options: { signal?: AbortSignal }
): Promise<DeliveryRefused['refusal']> {
  const session = await sessions.open(from, to, locator.address, options)
  const { mailboxKey } = locator
  const extensions = extensionsOf(params.message)
  const sealed = await sealSend(outgoing, { from, to, mailboxKey, params, extensions, traceparent: tracer.forPeers() })
  const answer = await depositObject(session, sealed.object, { crypto, clock, ...options })
  if (answer.status === 'refused') return refusalOfMailbox(answer.refusal, { objectBytesMax: DEPOSIT_OBJECT_BYTES_MAX })
  await outgoing.keepReceipt(sealed.key, answer.receipt)
  return { reason: 'asleep', queued: true }
}
