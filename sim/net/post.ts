/** Hands things over in a later turn of the event loop, or after a time; what has no time to wait goes all in one turn. */
export class Post {
  #waiting: (() => void)[] = []

  deliver(delayMs: number, call: () => void): void {
    if (delayMs > 0) return void setTimeout(call, delayMs)
    if (this.#waiting.push(call) === 1) setImmediate(() => this.#flush())
  }

  #flush(): void {
    const due = this.#waiting
    this.#waiting = []
    for (const call of due) call()
  }
}
