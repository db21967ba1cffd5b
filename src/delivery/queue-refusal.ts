import type { MailboxRefusal } from '../../protocol/delivery/mailbox.ts'
import type { Refusal } from '../../protocol/delivery/refusals.ts'
import type { QueueAnswer } from './asleep-queue.ts'

/** What an HTTP caller is told when the local queue did not take its message. */
export function refusalOfAnswer(answer: Exclude<QueueAnswer, { status: 'queued' }>): Refusal {
  switch (answer.status) {
    case 'full':
      return { reason: 'queue-full', kind: answer.kind }
    case 'too-large':
      return { reason: 'too-large', bytesMax: answer.bytesMax }
    case 'expired':
    case 'conflict':
      return { reason: answer.status }
  }
}

/** The same for a remote mailbox. `not-keeping` and `invalid` mean: asleep, and nothing was stored. */
export function refusalOfMailbox(refusal: MailboxRefusal, { objectBytesMax }: { objectBytesMax: number }): Refusal {
  switch (refusal.code) {
    case 'asleep_queue_full':
      return { reason: 'queue-full', kind: refusal.kind ?? 'messages' }
    case 'too-large':
      return { reason: 'too-large', bytesMax: objectBytesMax }
    case 'expired':
      return { reason: 'expired' }
    case 'conflict':
      return { reason: 'conflict' }
    case 'store-failed':
      return { reason: 'store-failed' }
    case 'not-keeping':
    case 'invalid':
      return { reason: 'asleep', queued: false }
  }
}
