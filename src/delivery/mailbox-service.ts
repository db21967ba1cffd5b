import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { DEPOSIT_OBJECT_BYTES_MAX, type MailboxRefusal, signReceipt } from '../../protocol/delivery/mailbox.ts'
import { decodeObject } from '../../protocol/delivery/object.ts'
import { keepsMessages } from '../../protocol/delivery/reachability.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Session } from '../sessions/session.ts'
import type { AsleepQueue, QueueAnswer, QueueRecord } from './asleep-queue.ts'
import type { KeeperStore } from './keeper-store.ts'
import { mailboxChannelOf } from './mailbox-channel.ts'

export interface MailboxServiceComponents {
  queue: AsleepQueue
  crypto: CryptoProvider
  clock: Clock
  logger: Logger
  /** the agents that this node hosts */
  agent: (eidHex: EidHex) => LocalAgent | undefined
  /** the EID that a depositor was first known by here; absent: the one it has */
  rootOf?: (eidHex: EidHex) => EidHex
  /** whether what this depositor leaves may become work of the agent; a stranger learns no more than that nothing is kept. Default: yes (TD-07) */
  maySend?: (agent: LocalAgent, depositor: EidHex) => boolean
  /** what a depositor's messages for an agent of ours count against (G-13); default: its own EID */
  slotOf?: (agent: LocalAgent, depositor: EidHex) => string
  /** whether an agent keeps messages at all; default: what its mode says */
  keeps?: (agent: LocalAgent) => boolean
  /** holds mail for agents of other nodes that asked for it; absent: this node keeps for nobody */
  keeper?: Pick<KeeperStore, 'keepsFor' | 'deposit'>
  /** called after the synced write: an agent that is awake by now is drained at once */
  onStored?: (agent: LocalAgent, record: QueueRecord) => void
}

/**
 * Takes deposits for hosted agents over a session's mailbox channel. The depositor is the EID that the session proved; the receipt is
 * signed after the synced write, by the EID that the depositor opened its session to (protocol/README.md §7).
 */
export function serveMailbox(session: Session, components: MailboxServiceComponents): void {
  const { crypto, clock } = components
  mailboxChannelOf(session, clock).serve(async (object) => {
    const depositor = eidHex(session.remote)
    const answer = await deposit(components, depositor, object)
    if (!('record' in answer)) return { type: 'refusal', ...answer, nowMs: clock.nowMs() }
    const { record } = answer
    const decoded = decodeObject(object, { bytesMax: DEPOSIT_OBJECT_BYTES_MAX })
    const receipt = signReceipt(session.local.signer, {
      objectHash: crypto.sha256(object),
      id: decoded.id,
      issuer: decoded.issuer,
      audience: decoded.audience,
      storedUntilMs: record.expiresAtMs
    })
    return { type: 'receipt', receipt }
  })
}

type Refused = Omit<MailboxRefusal, 'nowMs'>

async function deposit(
  components: MailboxServiceComponents,
  depositor: EidHex,
  object: Uint8Array
): Promise<{ record: QueueRecord } | Refused> {
  const { queue, logger, onStored } = components
  const keeps = components.keeps ?? ((agent: LocalAgent) => keepsMessages(agent.reachability))
  try {
    if (object.length > DEPOSIT_OBJECT_BYTES_MAX) return { code: 'too-large' }
    const audience = eidHex(decodeObject(object, { bytesMax: DEPOSIT_OBJECT_BYTES_MAX }).audience)
    const agent = components.agent(audience)
    const { keeper } = components
    if (agent === undefined ? keeper?.keepsFor(audience) !== true : !keeps(agent)) return { code: 'not-keeping' }
    if (agent !== undefined && components.maySend?.(agent, depositor) === false) return { code: 'not-keeping' }
    const deposit = { audience, principal: `eid:${components.rootOf?.(depositor) ?? depositor}`, object }
    const slot = agent === undefined ? undefined : components.slotOf?.(agent, depositor)
    const answer = agent === undefined && keeper !== undefined ? await keeper.deposit(deposit) : await queue.enqueue({ ...deposit, slot })
    if (answer.status !== 'queued') return refusedBy(answer)
    if (agent !== undefined && !answer.again) onStored?.(agent, answer.record)
    return { record: answer.record }
  } catch (error) {
    if (error instanceof ProtocolError) return { code: 'invalid', reason: error.code }
    const code = error instanceof RookeryError ? error.code : 'INTERNAL'
    logger.error({ error, code }, 'a deposit could not be stored')
    return { code: 'store-failed' }
  }
}

function refusedBy(answer: Exclude<QueueAnswer, { status: 'queued' }>): Refused {
  switch (answer.status) {
    case 'full':
      return { code: 'asleep_queue_full', kind: answer.kind }
    case 'too-large':
    case 'expired':
    case 'conflict':
      return { code: answer.status }
  }
}
