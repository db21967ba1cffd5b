import { RookeryError } from '../errors.ts'

/**
 * One page at a time owns an identity: two would sign records and sessions of one EID side by side, and contradict each other. The lock ends with
 * the page, however that ends.
 * @param whenBusy - `fail`: at once; `wait`: until the page that has it goes
 * @returns how to let go of it
 * @throws RookeryError `IDENTITY_IN_USE`, `BROWSER_UNSUPPORTED`; or the signal's reason
 */
export async function lockIdentity(
  name: string,
  { whenBusy, signal }: { whenBusy: 'fail' | 'wait'; signal?: AbortSignal | undefined }
): Promise<() => Promise<void>> {
  const { locks } = navigator
  if (locks === undefined) {
    throw new RookeryError('BROWSER_UNSUPPORTED', 'this page has no Web Locks, which keep two tabs from being one agent', {
      kind: 'config',
      field: 'store',
      value: name,
      remedy: "serve the page by https, or from localhost; or give `store: 'memory'`"
    })
  }
  const got = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const options = whenBusy === 'fail' ? { ifAvailable: true } : signal === undefined ? {} : { signal }
  const held = locks.request(`rookery:${name}`, options, async (lock) => {
    if (lock === null) throw inUse(name)
    got.resolve()
    await release.promise
  })
  held.catch((error: unknown) => got.reject(signal?.aborted === true ? signal.reason : error))
  await got.promise
  return async () => {
    release.resolve()
    await held
  }
}

function inUse(name: string): RookeryError {
  return new RookeryError('IDENTITY_IN_USE', 'another tab of this browser is this agent already', {
    kind: 'conflict',
    field: 'store',
    value: name,
    remedy: "use that tab or close it; or give `whenBusy: 'wait'`, or a `store` of another name for an agent of its own"
  })
}
