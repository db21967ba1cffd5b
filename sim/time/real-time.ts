/** The thread's own time, taken before anything can have put another in its place (`virtual-time.ts`). */
export const realTime = {
  nowMs: Date.now.bind(Date),
  monotonicMs: performance.now.bind(performance),
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setImmediate: globalThis.setImmediate,
  clearImmediate: globalThis.clearImmediate
} as const
