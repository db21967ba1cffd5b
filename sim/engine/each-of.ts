/** Does `work` for each item, at most `atOnce` at a time; after a failure nothing new starts, and it is thrown once what runs has ended. */
export async function eachOf<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  let next = 0
  let failure: { error: unknown } | undefined
  const run = async () => {
    while (next < items.length && failure === undefined) {
      try {
        await work(items[next++] as T)
      } catch (error) {
        failure ??= { error }
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, run))
  if (failure !== undefined) throw failure.error
}
