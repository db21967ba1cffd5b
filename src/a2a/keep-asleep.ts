import { utf8 } from '../../protocol/bytes.ts'
import type { Refusal } from '../../protocol/delivery/refusals.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { AsleepQueue, QueueAnswer } from '../delivery/asleep-queue.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import { canonicalJson } from '../tasks/canonical-json.ts'
import type { JsonObject } from '../tasks/todo.ts'

/** Seals a request as a governed object in an agent's name; the same message gives the same bytes until they expire. */
export interface Sealer {
  seal(input: { from: LocalAgent; to: Eid; mailboxKey: Uint8Array; messageId: string; plaintext: Uint8Array }): Promise<Uint8Array>
}

export type KeepAsleep = (input: {
  from: LocalAgent
  to: LocalAgent
  params: JsonObject
  retryAfterSec: number | undefined
}) => Promise<Refusal>

/** What a governed object of purpose `a2a:message` carries (wire.md §9). */
export function requestPlaintext(params: JsonObject): Uint8Array {
  return utf8(canonicalJson({ method: 'SendMessage', params }))
}

export function messageIdOf(params: JsonObject): string {
  const message = params.message as JsonObject
  return message.messageId as string
}

/** Seals for a sleeping agent of this node and puts the object into its queue; `queued: true` only after the synced write (OD-14, OD-22). */
export function createKeepAsleep({ sealer, queue }: { sealer: Sealer; queue: AsleepQueue }): KeepAsleep {
  return async ({ from, to, params, retryAfterSec }) => {
    try {
      const object = await sealer.seal({
        from,
        to: to.eid,
        mailboxKey: to.mailboxKey,
        messageId: messageIdOf(params),
        plaintext: requestPlaintext(params)
      })
      return refusalOf(await queue.enqueue({ audience: to.eidHex, principal: `eid:${from.eidHex}`, object }), retryAfterSec)
    } catch (err) {
      if (err instanceof RookeryError && err.kind === 'storage') return { reason: 'store-failed' }
      throw err
    }
  }
}

function refusalOf(answer: QueueAnswer, retryAfterSec: number | undefined): Refusal {
  switch (answer.status) {
    case 'queued':
      return { reason: 'asleep', queued: true, retryAfterSec }
    case 'full':
      return { reason: 'queue-full', kind: answer.kind, retryAfterSec }
    case 'too-large':
      return { reason: 'too-large', bytesMax: answer.bytesMax }
    case 'expired':
      return { reason: 'expired' }
    case 'conflict':
      return { reason: 'conflict' }
  }
}
