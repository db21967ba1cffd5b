import type { Admission } from '../ecc/execution-contracts.ts'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import type { WriteOp } from '../store/store.ts'
import type { Todo } from '../tasks/todo.ts'
import type { A2aError } from './a2a-error.ts'

/** One call in the name of a verified principal. */
export class Caller {
  readonly principal: VerifiedPrincipal
  readonly door: Todo['door']
  /** fires when nobody waits for the answer any more, and when the grant that the call is made with ends (G-56) */
  readonly signal: AbortSignal
  /** runs as soon as a Todo of the request is on disk */
  readonly onDurable: () => void
  /** writes that go into the batch that stores the request's Todo */
  readonly alongside: () => readonly WriteOp[]
  /** `now`: a blocking send returns the task as it is */
  readonly wait: 'settled' | 'now'
  /** to be called where the message had come before: it costs nothing then */
  readonly repeated: () => void
  /** under which contract a send is executed; undefined: core A2A */
  readonly admission: Admission | undefined
  /** the last event of a task that the caller has of an earlier stream, as the stream numbered it */
  readonly lastEventId: string | undefined
  /** why a call of 0.3 was refused: the SDK keeps neither our codes nor our details */
  refused: A2aError | undefined

  constructor(init: {
    principal: VerifiedPrincipal
    door: Todo['door']
    signal: AbortSignal
    onDurable?: (() => void) | undefined
    alongside?: (() => readonly WriteOp[]) | undefined
    wait?: 'settled' | 'now'
    repeated?: () => void
    admission?: Admission | undefined
    lastEventId?: string | undefined
  }) {
    this.principal = init.principal
    this.door = init.door
    const ended = init.principal.grant?.ended
    this.signal = ended === undefined ? init.signal : AbortSignal.any([init.signal, ended])
    this.onDurable = init.onDurable ?? (() => undefined)
    this.alongside = init.alongside ?? (() => [])
    this.wait = init.wait ?? 'settled'
    this.repeated = init.repeated ?? (() => undefined)
    this.admission = init.admission
    this.lastEventId = init.lastEventId
  }

  /** What the SDK asks of a user. */
  get isAuthenticated(): boolean {
    return true
  }

  get userName(): string {
    return this.principal.id
  }
}
