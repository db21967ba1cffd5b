/**
 * What is known of a message that was handed to its sender's node (protocol/README.md §7). Never ahead of the truth: `kept` needs a receipt that was
 * verified, `delivered` the word of the audience itself.
 */
export type OutboxState =
  /** on the sender's disk and, for all that is known, nowhere else */
  | { name: 'queued-here' }
  /** so many keepers signed that they hold it; the audience's own node counts as one */
  | { name: 'kept'; by: number }
  /** it is on the audience's disk as a task, or had its effect */
  | { name: 'delivered' }
  /** the task has ended */
  | { name: 'handled' }
  /** its time ran out before anybody said that it was delivered */
  | { name: 'expired' }
  /** the audience, or its node, will never take it */
  | { name: 'refused'; reason: string }

export const OUTBOX_STATES = [
  'queued-here',
  'kept',
  'delivered',
  'handled',
  'expired',
  'refused'
] as const satisfies readonly OutboxState['name'][]
export const REFUSAL_REASON_BYTES_MAX = 64
export const KEPT_BY_MAX = 16

/** Where nothing more can become of it. */
export function isOutboxEnd({ name }: OutboxState): boolean {
  return name === 'handled' || name === 'expired' || name === 'refused'
}

/** Whether the sender still has something to do or to hear: an attempt, or a question. */
export function awaitsDelivery({ name }: OutboxState): boolean {
  return name === 'queued-here' || name === 'kept'
}

/**
 * The state after `news`, or `from` where the news is older than what is known: a message never goes back from delivered to kept, a word that comes after the
 * end changes nothing, and time alone takes nothing back that the audience has confirmed.
 */
export function afterNews(from: OutboxState, news: OutboxState): OutboxState {
  if (isOutboxEnd(from)) return from
  if (from.name === 'delivered') return news.name === 'handled' ? news : from
  if (news.name === 'kept' && news.by <= 0) return { name: 'queued-here' }
  return news
}

/** `queued-here`, `kept-by-2`, `delivered`, `handled`, `expired`, `refused(REASON)`. */
export function outboxStateText(state: OutboxState): string {
  if (state.name === 'kept') return `kept-by-${state.by}`
  return state.name === 'refused' ? `refused(${state.reason})` : state.name
}

/** The first attempt after a failed one waits so long, each further one twice as long, */
export const RETRY_FIRST_MS = 5_000
/** up to this, */
export const RETRY_LAST_MS = 15 * 60_000
/** and each up to so much less, by chance, so that senders who lost the same peer at once do not come back at once. */
export const RETRY_JITTER = 0.25

/**
 * How long to wait after the n-th failed attempt in a row, n from 1.
 * @param fraction - chance, from 0 (with) to 1 (without)
 * @param hintMs - when the audience means to be back, if it said so: no attempt before it, none later than the longest wait
 */
export function retryAfterMs(failures: number, fraction: number, hintMs = 0): number {
  const whole = Math.min(RETRY_LAST_MS, RETRY_FIRST_MS * 2 ** Math.min(30, Math.max(0, failures - 1)))
  return Math.max(Math.round(whole * (1 - RETRY_JITTER * fraction)), Math.min(hintMs, RETRY_LAST_MS))
}
