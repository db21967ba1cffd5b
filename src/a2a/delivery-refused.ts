import type { Refusal } from '../../protocol/delivery/refusals.ts'

/** A reachability refusal on its way to a binding, which writes it in the form that its caller reads. */
export class DeliveryRefused extends Error {
  override readonly name = 'DeliveryRefused'
  readonly refusal: Refusal

  /** Without a stack trace: it is an answer, thrown for every message that is kept, and the trace would cost more than sealing the message. */
  constructor(refusal: Refusal) {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(refusal.reason)
    Error.stackTraceLimit = stackTraceLimit
    this.refusal = refusal
  }
}

/** Both names of a send, and streaming sends (G-17); everything else is answered while asleep. */
export function isSend(method: string): boolean {
  return method === 'SendMessage' || method === 'SendStreamingMessage'
}
