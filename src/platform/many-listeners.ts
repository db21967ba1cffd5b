import { nodeBuiltin } from './builtin.ts'

/** One signal that any number listens to, each for a while: Node would warn of a leak at the eleventh. */
export function allowManyListeners(signal: AbortSignal): void {
  nodeBuiltin('node:events')?.setMaxListeners(0, signal)
}
