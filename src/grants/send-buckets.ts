import { TokenBucket } from '../a2a/token-bucket.ts'
import type { Clock } from '../platform/clock.ts'
import type { SendLimits } from './grant.ts'
import type { Grants } from './grants.ts'

/** A bucket that holds less than this share of its burst is a near miss (TD-R1). */
const NEAR = 0.2

/** What was refused and what came close, since the start (TD-23). */
export interface SendLimitCounts {
  taken: number
  refused: number
  nearMisses: number
}

/**
 * One token bucket for each vended endpoint, drawn from by whatever makes a task with it (TD-19 … TD-22). Full again after a restart; as many as grants that were
 * used, and gone with their grant.
 */
export class SendBuckets {
  readonly #clock: Clock
  readonly #grants: Grants
  readonly #buckets = new Map<string, { bucket: TokenBucket; limits: SendLimits }>()
  readonly #counts: SendLimitCounts = { taken: 0, refused: 0, nearMisses: 0 }
  readonly #limits: () => SendLimits

  constructor({ clock, grants }: { clock: Clock; grants: Grants }, limits: () => SendLimits) {
    this.#clock = clock
    this.#grants = grants
    this.#limits = limits
    grants.onEvent(({ kind, grant }) => {
      if (kind === 'revoked' || kind === 'expired') this.#buckets.delete(grant.id)
    })
  }

  /** The node's own, asked for at every use: a change holds from the next task on, for every grant without one of its own. */
  get limits(): SendLimits {
    return this.#limits()
  }

  /** What holds for a grant now. */
  limitsOf(id: string): SendLimits {
    return { ...this.#limits(), ...this.#grants.get(id)?.limits }
  }

  counts(): SendLimitCounts {
    return { ...this.#counts }
  }

  /** @returns 0 when one was taken, else the whole seconds after which there is one */
  take(id: string): number {
    const { bucket, limits } = this.#bucket(id)
    const waitSec = bucket.take()
    if (waitSec > 0) this.#counts.refused++
    else {
      this.#counts.taken++
      if (bucket.left < limits.burst * NEAR) this.#counts.nearMisses++
    }
    return waitSec
  }

  /** Nothing was made after all: the message came before. */
  giveBack(id: string): void {
    this.#buckets.get(id)?.bucket.giveBack()
  }

  #bucket(id: string): { bucket: TokenBucket; limits: SendLimits } {
    const limits = this.limitsOf(id)
    let held = this.#buckets.get(id)
    if (held === undefined) {
      held = { bucket: new TokenBucket(this.#clock, rateOf(limits)), limits }
      this.#buckets.set(id, held)
    } else if (held.limits.burst !== limits.burst || held.limits.perMin !== limits.perMin) {
      held.bucket.retune(rateOf(limits))
      held.limits = limits
    }
    return held
  }
}

function rateOf({ burst, perMin }: SendLimits): { burst: number; perSec: number } {
  return { burst, perSec: perMin / 60 }
}
