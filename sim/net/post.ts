/** Deliveries of one turn of the event loop; more wait for the next, so that timers and sockets have theirs. */
const PER_TURN_MAX = 2_000

/** Hands things over after a time; what has none to wait as soon as whoever sent it has let go, in order. */
export class Post {
  #waiting: (() => void)[] = []
  #isFlushing = false
  #thisTurn = 0

  deliver(delayMs: number, call: () => void): void {
    if (delayMs > 0) return void setTimeout(call, delayMs)
    this.#waiting.push(call)
    if (this.#isFlushing) return
    this.#isFlushing = true
    queueMicrotask(() => this.#flush())
  }

  #flush(): void {
    if (this.#thisTurn === 0) {
      setImmediate(() => {
        this.#thisTurn = 0
        if (this.#waiting.length > 0) this.#flush()
      })
    }
    this.#isFlushing = true
    for (let next = 0; next < this.#waiting.length; next++) {
      if (++this.#thisTurn > PER_TURN_MAX) {
        this.#waiting = this.#waiting.slice(next)
        return
      }
      this.#waiting[next]?.()
    }
    this.#waiting = []
    this.#isFlushing = false
  }
}
