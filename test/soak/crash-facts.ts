import { closeSync, openSync, readSync, writeSync } from 'node:fs'

/** Which of the two nodes. */
export type Side = 'a' | 'b'

export const otherSide = (side: Side): Side => (side === 'a' ? 'b' : 'a')

/**
 * What a node saw, one line each, written with `write(2)` at the moment it saw it: so it outlives a SIGKILL of the node, and comes before anything
 * that the node does next. Items are named by channel and number `k`, which rises for ever on each channel of each node.
 */
export type Fact =
  /** the application is about to send */
  | { fact: 'issued'; channel: number; k: number }
  /** the batch that holds it in the journal is synced */
  | { fact: 'journaled'; channel: number; k: number }
  /** `send` resolved */
  | { fact: 'acked'; channel: number; k: number }
  /** `send` was rejected */
  | { fact: 'failed'; channel: number; k: number; code: string; outcome: string }
  /** the session returned it to the application */
  | { fact: 'returned'; channel: number; k: number; sent: boolean }
  /** a session event of any other kind */
  | { fact: 'event'; kind: string; session: string; reason: string; direction: string; error: string }
  /** every checkpoint that the node's key signed, sent or not */
  | { fact: 'checkpoint'; hex: string }
  /** a handler could not store its effect */
  | { fact: 'broken'; error: string }

/** Appends facts to a file. */
export class FactWriter {
  readonly #file: number

  constructor(path: string) {
    this.#file = openSync(path, 'a')
  }

  write(facts: readonly Fact[]): void {
    if (facts.length > 0) writeSync(this.#file, facts.map((fact) => `${JSON.stringify(fact)}\n`).join(''))
  }
}

/** Reads on in a file of facts that grows. */
export class FactReader {
  readonly #path: string
  #at = 0

  constructor(path: string) {
    this.#path = path
  }

  /** What was written since the last call, whole lines only. */
  read(): Fact[] {
    const file = openSync(this.#path, 'a+')
    try {
      const chunks: Buffer[] = []
      for (let at = this.#at; ; ) {
        const chunk = Buffer.allocUnsafe(1 << 20)
        const bytes = readSync(file, chunk, 0, chunk.length, at)
        if (bytes === 0) break
        chunks.push(chunk.subarray(0, bytes))
        at += bytes
      }
      const all = Buffer.concat(chunks)
      const end = all.lastIndexOf(10) + 1
      this.#at += end
      const lines = all.subarray(0, end).toString().split('\n')
      lines.pop()
      return lines.map((line) => JSON.parse(line) as Fact)
    } finally {
      closeSync(file)
    }
  }
}

/** What a receiver's disk holds of one channel: rows in the order in which handlers stored them, and the row that counts them. */
export interface AppliedChannel {
  channel: number
  count: number
  lastK: number
  /** the rows from the asked one on */
  ks: number[]
}

interface Channel {
  /** not judged yet */
  acked: Set<number>
  journaled: Set<number>
  /** returned as "outcome unknown" */
  unknown: Set<number>
  /** said to have never left */
  notSent: Set<number>
  issuedK: number
  /** rows at the receiver that were judged */
  rows: number
  rowsLastK: number
}

/** One direction of the traffic: what the sender was told, against what the receiver has. */
export class Direction {
  readonly #channels = new Map<number, Channel>()
  readonly #name: string
  items = 0
  acked = 0
  returned = 0
  refused = 0

  constructor(name: string) {
    this.#name = name
  }

  #channel(channel: number): Channel {
    let one = this.#channels.get(channel)
    if (one === undefined) {
      one = {
        acked: new Set(),
        journaled: new Set(),
        unknown: new Set(),
        notSent: new Set(),
        issuedK: 0,
        rows: 0,
        rowsLastK: 0
      }
      this.#channels.set(channel, one)
    }
    return one
  }

  take(fact: Fact): void {
    switch (fact.fact) {
      case 'issued':
        this.items += 1
        this.#channel(fact.channel).issuedK = fact.k
        break
      case 'journaled':
        this.#channel(fact.channel).journaled.add(fact.k)
        break
      case 'acked':
        this.acked += 1
        this.#channel(fact.channel).acked.add(fact.k)
        break
      case 'failed':
        this.refused += 1
        if (fact.outcome === 'not-sent') this.#channel(fact.channel).notSent.add(fact.k)
        else this.#channel(fact.channel).unknown.add(fact.k)
        break
      case 'returned':
        this.returned += 1
        if (fact.sent) this.#channel(fact.channel).unknown.add(fact.k)
        else this.#channel(fact.channel).notSent.add(fact.k)
        break
    }
  }

  /** By channel, the number of the last item that was issued. */
  issued(): Record<number, number> {
    return Object.fromEntries([...this.#channels].map(([channel, { issuedK }]) => [channel, issuedK]))
  }

  /** By channel, the rows that were judged. */
  judged(): Record<number, number> {
    return Object.fromEntries([...this.#channels].map(([channel, { rows }]) => [channel, rows]))
  }

  /**
   * Nothing is under way: everything acknowledged or journaled is at the receiver once and in order, or was returned as unknown.
   * @returns the violations, in words
   */
  judge(applied: readonly AppliedChannel[]): string[] {
    const violations: string[] = []
    const say = (channel: number, text: string) => violations.push(`${this.#name}, channel ${channel}: ${text}`)
    for (const { channel, count, lastK, ks } of applied) {
      const one = this.#channel(channel)
      let last = one.rowsLastK
      for (const k of ks) {
        if (k === last) say(channel, `item ${k} was applied twice`)
        else if (k < last) say(channel, `item ${k} was applied after item ${last}`)
        if (k > one.issuedK) say(channel, `item ${k} was applied and never issued`)
        if (one.notSent.has(k)) say(channel, `item ${k} was applied, and the sender was told that it never left`)
        last = Math.max(last, k)
      }
      if (count !== one.rows + ks.length) say(channel, `${one.rows + ks.length} items are in the log, the counter says ${count}`)
      if (lastK !== last) say(channel, `the log ends with item ${last}, the counter with ${lastK}`)
      const there = new Set(ks)
      for (const k of one.acked) if (!there.has(k)) say(channel, `item ${k} was acknowledged and is not there`)
      for (const k of one.journaled) {
        if (!there.has(k) && !one.unknown.has(k) && !one.notSent.has(k))
          say(channel, `item ${k} was journaled, is not there and nobody was told`)
      }
      one.rows = count
      one.rowsLastK = last
    }
    for (const [channel, one] of this.#channels) {
      if (!applied.some((row) => row.channel === channel)) {
        for (const k of one.acked) say(channel, `item ${k} was acknowledged and is not there`)
      }
      one.acked.clear()
      one.journaled.clear()
      one.unknown.clear()
      for (const k of one.notSent) if (k <= one.rowsLastK) one.notSent.delete(k)
    }
    return violations
  }

  /** The receiver's disk is an older one: what it has now is where judging begins. */
  receiverRestored(applied: readonly AppliedChannel[]): void {
    for (const { channel, count, lastK } of applied) {
      const one = this.#channel(channel)
      one.rows = count
      one.rowsLastK = lastK
    }
    for (const [channel, one] of this.#channels) {
      if (applied.some((row) => row.channel === channel)) continue
      one.rows = 0
      one.rowsLastK = 0
    }
  }
}
