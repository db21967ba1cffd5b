import { Worker } from 'node:worker_threads'
import { realTime } from './real-time.ts'
import { type HeapTimer, TimerHeap } from './timer-heap.ts'

/** The wall clock begins here, at a full hour, as the model's does: 2026-01-01T00:00:00Z. */
export const VIRTUAL_EPOCH_MS = 1_767_225_600_000
/** Before a leap of this length the process is asked whether a file is still being read. */
const LEAP_MS = 50
/** Between two looks while something outside of this thread is at work */
const OUTSIDE_LOOK_MS = 1
/** As Node's: a shorter or a longer timer is one of 1 ms. */
const TIMER_MAX_MS = 2 ** 31 - 1
const SUBTLE_CALLS = [
  'decrypt',
  'deriveBits',
  'deriveKey',
  'digest',
  'encrypt',
  'exportKey',
  'generateKey',
  'importKey',
  'sign',
  'unwrapKey',
  'verify',
  'wrapKey'
] as const

type Callback = (...args: unknown[]) => void

/** What `setTimeout` and `setInterval` give back. */
class VirtualTimer implements HeapTimer {
  atMs = 0
  order = 0
  place = -1
  readonly id: number
  readonly call: () => void
  readonly delayMs: number
  readonly repeats: boolean
  readonly #time: VirtualTime

  constructor(time: VirtualTime, id: number, call: () => void, delayMs: number, repeats: boolean) {
    this.#time = time
    this.id = id
    this.call = call
    this.delayMs = delayMs
    this.repeats = repeats
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  hasRef(): boolean {
    return true
  }

  refresh(): this {
    this.#time.set(this)
    return this
  }

  close(): this {
    this.#time.cancel(this)
    return this
  }

  [Symbol.dispose](): void {
    this.close()
  }

  [Symbol.toPrimitive](): number {
    return this.id
  }
}

/**
 * Time that stands still while anything is at work and leaps to the next timer once nothing is. Installed in a thread of its own before the code under
 * test is loaded, it takes the place of `Date`, `performance.now`, timers and `AbortSignal.timeout` for all of that code, libraries too. At work are
 * callbacks, promises and immediates of this thread, WebCrypto, threads that are waited for, and files that are being read; sockets are not seen, so
 * it is for networks in memory alone.
 */
export class VirtualTime {
  readonly #heap = new TimerHeap<VirtualTimer>()
  readonly #byId = new Map<number, VirtualTimer>()
  readonly #immediates = new Set<NodeJS.Immediate>()
  readonly #outside = new Set<unknown>()
  #nowMs = 0
  #ids = 1
  #orders = 0
  #isRunning = false
  /** timers that fired */
  fired = 0

  /** since the install */
  get nowMs(): number {
    return this.#nowMs
  }

  /** Puts itself in the place of this thread's time, for good. */
  install(): this {
    this.#installClocks()
    this.#installTimers()
    this.#installImmediates()
    this.#watchOutside()
    return this
  }

  #installClocks(): void {
    const now = () => VIRTUAL_EPOCH_MS + Math.floor(this.#nowMs)
    const RealDate = Date
    RealDate.now = now
    globalThis.Date = new Proxy(RealDate, {
      construct: (target, args, newTarget) => Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget)
    })
    performance.now = () => this.#nowMs
  }

  #installTimers(): void {
    const start =
      (repeats: boolean) =>
      (call: Callback, delayMs?: number, ...args: unknown[]) => {
        const timer = new VirtualTimer(this, this.#ids++, () => call(...args), delayOf(delayMs), repeats)
        this.#byId.set(timer.id, timer)
        this.set(timer)
        return timer
      }
    const stop = (timer: unknown) => {
      const known = timer instanceof VirtualTimer ? timer : this.#byId.get(Number(timer))
      if (known !== undefined) this.cancel(known)
    }
    Object.assign(globalThis, { setTimeout: start(false), setInterval: start(true), clearTimeout: stop, clearInterval: stop })
    AbortSignal.timeout = (ms) => {
      const controller = new AbortController()
      setTimeout(() => controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError')), ms)
      return controller.signal
    }
  }

  #installImmediates(): void {
    const set = (call: Callback, ...args: unknown[]) => {
      const immediate = realTime.setImmediate(() => {
        this.#immediates.delete(immediate)
        call(...args)
      })
      this.#immediates.add(immediate)
      return immediate
    }
    const clear = (immediate: NodeJS.Immediate) => {
      this.#immediates.delete(immediate)
      realTime.clearImmediate(immediate)
    }
    Object.assign(globalThis, { setImmediate: set, clearImmediate: clear })
  }

  /** Work whose end comes from outside of this thread's loop: time waits for it. */
  #watchOutside(): void {
    const subtle = Object.getPrototypeOf(crypto.subtle) as Record<string, (...args: unknown[]) => Promise<unknown>>
    const outside = this.#outside
    for (const name of SUBTLE_CALLS) {
      const real = subtle[name] as (...args: unknown[]) => Promise<unknown>
      subtle[name] = async function (this: unknown, ...args) {
        const mark = {}
        outside.add(mark)
        try {
          return await real.apply(this, args)
        } finally {
          outside.delete(mark)
        }
      }
    }
    // a thread that is waited for is one that keeps the process alive by word (the solver of proofs of work says so)
    const { ref, unref, terminate } = Worker.prototype
    const seen = new WeakSet<Worker>()
    Worker.prototype.ref = function () {
      outside.add(this)
      if (!seen.has(this)) this.once('exit', () => outside.delete(this))
      seen.add(this)
      return ref.call(this)
    }
    Worker.prototype.unref = function () {
      outside.delete(this)
      return unref.call(this)
    }
    // Node's own keeps the process alive by the same word until the thread is gone
    Worker.prototype.terminate = async function () {
      try {
        return await terminate.call(this)
      } finally {
        outside.delete(this)
      }
    }
  }

  /** Sets it anew, from now on. */
  set(timer: VirtualTimer): void {
    this.#heap.remove(timer)
    timer.atMs = this.#nowMs + timer.delayMs
    timer.order = this.#orders++
    this.#heap.add(timer)
  }

  cancel(timer: VirtualTimer): void {
    this.#heap.remove(timer)
    this.#byId.delete(timer.id)
  }

  /** Lets time pass while `work` goes on; it may wait for timers, others of this network run beside it. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    this.#isRunning = true
    realTime.setImmediate(() => this.#turn())
    try {
      return await work()
    } finally {
      this.#isRunning = false
    }
  }

  /** One turn of the loop: promises have settled before it. Where nothing is left to do, the next timer fires. */
  #turn(): void {
    if (!this.#isRunning) return
    const next = this.#heap.first()
    if (next === undefined || this.#isAtWork(next.atMs - this.#nowMs)) {
      if (this.#immediates.size > 0) realTime.setImmediate(() => this.#turn())
      else realTime.setTimeout(() => this.#turn(), OUTSIDE_LOOK_MS)
      return
    }
    this.#nowMs = Math.max(this.#nowMs, next.atMs)
    if (next.repeats) this.set(next)
    else this.cancel(next)
    this.fired++
    // before the call: one that throws ends the thread, not the turns
    realTime.setImmediate(() => this.#turn())
    next.call()
  }

  #isAtWork(leapMs: number): boolean {
    if (this.#immediates.size > 0 || this.#outside.size > 0) return true
    return leapMs >= LEAP_MS && process.getActiveResourcesInfo().some((name) => name.startsWith('FSReq'))
  }
}

function delayOf(ms: unknown): number {
  const delay = Number(ms)
  return delay >= 1 && delay <= TIMER_MAX_MS ? Math.floor(delay) : 1
}
