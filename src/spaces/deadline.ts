import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'

/**
 * Runs `work` with a signal that fires after `ms` or with `parent`; the timer and the listener end with the work.
 * @throws RookeryError `REGISTRY_TIMEOUT`, or the parent's reason
 */
export async function withDeadline<T>(
  clock: Clock,
  ms: number,
  parent: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>
): Promise<T> {
  parent?.throwIfAborted()
  const controller = new AbortController()
  const follow = () => controller.abort(parent?.reason)
  parent?.addEventListener('abort', follow, { once: true })
  const cancel = clock.after(ms, () => {
    controller.abort(new RookeryError('REGISTRY_TIMEOUT', `no answer within ${ms} ms`, { kind: 'timeout' }))
  })
  try {
    return await work(controller.signal)
  } finally {
    cancel()
    parent?.removeEventListener('abort', follow)
  }
}

/** Runs `work` on every item, at most `atOnce` at a time. */
export async function eachOf<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values()
  await Promise.all(
    Array.from({ length: Math.min(atOnce, items.length) }, async () => {
      for (const item of queue) await work(item)
    })
  )
}
