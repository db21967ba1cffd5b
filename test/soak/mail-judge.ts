import { type MailReport, type MailView, messageIdOf } from './mail-orders.ts'

export type Seen = Pick<MailView, 'outbox' | 'tasks' | 'held' | 'queued'>

/** What was promised and told until a moment: what a disk that is looked at later has to agree with. */
export interface Claims {
  accepted: ReadonlySet<string>
  told: ReadonlyMap<string, string>
}

const FINISHED = new Set(['done', 'failed', 'canceled', 'rejected'])

/** What the parties to the mail promised, and whether their disks agree. */
export class MailJudge {
  readonly #accepted = new Set<string>()
  readonly #issued = new Set<string>()
  /** the last state that the sender told of a message */
  readonly #told = new Map<string, string>()
  readonly #kept = new Set<string>()
  readonly #answers = new Map<string, () => void>()
  #failed = 0
  #handled = 0

  figures() {
    return { accepted: this.#accepted.size, failed: this.#failed, kept: this.#kept.size, handled: this.#handled }
  }

  hear(report: MailReport): void {
    if (report.kind === 'accepted' || report.kind === 'failed') {
      const messageId = messageIdOf(report.k)
      this.#issued.add(messageId)
      if (report.kind === 'accepted') this.#accepted.add(messageId)
      else this.#failed++
      this.#answers.get(messageId)?.()
      this.#answers.delete(messageId)
    } else if (report.kind === 'told') {
      this.#issued.add(report.messageId)
      this.#told.set(report.messageId, report.state)
      if (report.state.startsWith('kept-by-')) this.#kept.add(report.messageId)
    }
  }

  /** Resolves once the sender has said what became of handing this message over. */
  answered(messageId: string): Promise<void> {
    return new Promise((resolve) => this.#answers.set(messageId, resolve))
  }

  claims(): Claims {
    return { accepted: new Set(this.#accepted), told: new Map(this.#told) }
  }

  /**
   * What may be so at no time.
   * @param accepted - before the sender was looked at
   * @param told - before the sleeper was: what is told later its view need not show
   */
  never({ outbox, tasks }: Seen, { accepted, told }: Claims = this.claims()): string[] {
    const wrong: string[] = []
    const counts = new Map<string, number>()
    for (const { messageId } of tasks) counts.set(messageId, (counts.get(messageId) ?? 0) + 1)
    for (const [messageId, count] of counts) {
      if (count > 1) wrong.push(`${messageId} became ${count} tasks`)
    }
    const claimed = new Map([...told, ...outbox.map((one): [string, string] => [one.messageId, one.state])])
    for (const [messageId, state] of claimed) {
      if ((state === 'delivered' || state === 'handled') && !counts.has(messageId))
        wrong.push(`${messageId} is said to be ${state}, and no task is there`)
      if (state === 'expired' || state.startsWith('refused'))
        wrong.push(`${messageId} is said to be ${state}, and nothing was wrong with it`)
    }
    const there = new Set(outbox.map(({ messageId }) => messageId))
    for (const messageId of accepted) {
      if (!there.has(messageId) && !this.#isOver(this.#told.get(messageId)))
        wrong.push(`${messageId} was accepted and is no longer in the outbox, last told ${this.#told.get(messageId) ?? 'nothing'}`)
    }
    return wrong
  }

  /** What is not yet as it has to be in the end: all that was accepted handled, nothing left anywhere. */
  missing({ outbox, tasks, held, queued }: Seen): string[] {
    const missing: string[] = []
    const done = new Set(tasks.filter(({ state }) => FINISHED.has(state)).map(({ messageId }) => messageId))
    this.#handled = done.size
    for (const messageId of this.#accepted) if (!done.has(messageId)) missing.push(`${messageId} was accepted and is not handled`)
    for (const { messageId, state } of outbox) if (!this.#isOver(state)) missing.push(`${messageId} is ${state} to its sender`)
    if (held > 0) missing.push(`the keeper still holds ${held}`)
    if (queued > 0) missing.push(`${queued} still wait in the queue`)
    return missing
  }

  /** Messages from this one on became tasks in the order in which they were accepted, as far as one clock tells. */
  disorder({ tasks }: Pick<Seen, 'tasks'>, first: string): string[] {
    const fresh = tasks.filter(({ messageId }) => messageId >= first && this.#accepted.has(messageId))
    const byName = fresh.sort((a, b) => (a.messageId < b.messageId ? -1 : 1))
    return byName.flatMap((one, i) => {
      const next = byName[i + 1]
      return next !== undefined && next.createdAtMs < one.createdAtMs ? [`${next.messageId} became a task before ${one.messageId}`] : []
    })
  }

  #isOver(state: string | undefined): boolean {
    return state === 'handled' || state === 'expired' || state?.startsWith('refused') === true
  }
}
