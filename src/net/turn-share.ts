/**
 * Lets so many go on in each turn of the event loop; the others wait in the order they came. A caller that asks one after the other so takes its
 * turn with all that do, however much it has.
 */
export class TurnShare {
  readonly #perTurn: number
  #left: number
  #isTurnAsked = false
  /** one entry a caller that waits: as many as there are connections */
  readonly #waiting: (() => void)[] = []

  constructor(perTurn: number) {
    this.#perTurn = perTurn
    this.#left = perTurn
  }

  get waiting(): number {
    return this.#waiting.length
  }

  async enter(): Promise<void> {
    if (!this.#isTurnAsked) {
      this.#isTurnAsked = true
      setImmediate(() => this.#turn())
    }
    if (this.#left > 0) {
      this.#left--
      return
    }
    await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  #turn(): void {
    const going = this.#waiting.splice(0, this.#perTurn)
    this.#left = this.#perTurn - going.length
    this.#isTurnAsked = going.length > 0
    if (this.#isTurnAsked) setImmediate(() => this.#turn())
    for (const go of going) go()
  }
}
