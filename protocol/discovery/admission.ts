import { ReplaySet } from './replay-set.ts'
import { type HeaderFault, headerFault, headerTimestampMs } from './request.ts'
import type { RejectReason } from './response.ts'
import { requestSeed, requestWorkBits, seedHex, WORK_BITS_MAX, WORK_BITS_MIN, type WorkSeed } from './work.ts'

/** A request may be this much older or newer than the receiver's clock. */
export const REQUEST_WINDOW_MS = 120_000
/** How steeply the difficulty rises with the queue: a full one asks for 16 bits more than an empty one. */
export const DIFFICULTY_GAMMA = 16
/** Requests taken and not yet answered. */
export const QUEUE_CAPACITY = 256

export interface AdmissionInit {
  capacity?: number
  gamma?: number
  replaysMax?: number
}

/** `D = min(32, 16 + floor(gamma · queued / capacity))` */
export function difficultyAt(queued: number, capacity: number, gamma = DIFFICULTY_GAMMA): number {
  return Math.min(WORK_BITS_MAX, WORK_BITS_MIN + Math.floor((gamma * queued) / capacity))
}

/** What became of a header: `wanting` may be answered by a REJ, a fault by nothing. */
export type Judgement = { kind: 'sound' } | { kind: 'wanting'; reason: RejectReason } | { kind: 'faulty'; fault: HeaderFault }
const SOUND: Judgement = { kind: 'sound' }
const LATE: Judgement = { kind: 'wanting', reason: 'clock' }
const TOO_LITTLE: Judgement = { kind: 'wanting', reason: 'work' }

export type Entry = { kind: 'entered'; seed: WorkSeed } | { kind: 'full' } | { kind: 'known' }

/**
 * Who may cost a node anything (protocol/README.md §5): {@link judge} looks at a header and leaves no trace; {@link enter} is for headers that were found
 * sound, {@link leave} for each that entered, once it is answered.
 */
export class Admission {
  readonly #capacity: number
  readonly #gamma: number
  readonly #replays: ReplaySet
  #queued = 0

  constructor(init: AdmissionInit = {}) {
    this.#capacity = init.capacity ?? QUEUE_CAPACITY
    this.#gamma = init.gamma ?? DIFFICULTY_GAMMA
    this.#replays = new ReplaySet(init.replaysMax)
  }

  get queued(): number {
    return this.#queued
  }

  get remembered(): number {
    return this.#replays.size
  }

  /** Bits of work asked for now. */
  get difficulty(): number {
    return difficultyAt(this.#queued, this.#capacity, this.#gamma)
  }

  /**
   * Version, type, lengths; the time; the difficulty; the work, in this order. Changes and keeps nothing.
   * @param header - 120 bytes
   * @param nowMs - wall clock, ms since the Unix epoch
   */
  judge(header: Uint8Array, nowMs: number): Judgement {
    const fault = headerFault(header)
    if (fault !== undefined) return { kind: 'faulty', fault }
    if (Math.abs(headerTimestampMs(header) - nowMs) > REQUEST_WINDOW_MS) return LATE
    const claimed = header[3] as number
    if (claimed < this.difficulty || requestWorkBits(header) < claimed) return TOO_LITTLE
    return SOUND
  }

  /** The replay set, by seed and hops left: one node may be stem, registrar and member of one request. Then a place in the queue. */
  enter(header: Uint8Array, nowMs: number): Entry {
    if (this.#queued >= this.#capacity) return { kind: 'full' }
    const seed = requestSeed(header)
    const untilMs = headerTimestampMs(header) + REQUEST_WINDOW_MS
    const entered = this.#replays.enter(`${seedHex(seed)}${header[4]}`, { nowMs, untilMs })
    if (entered !== 'entered') return { kind: entered }
    this.#queued++
    return { kind: 'entered', seed }
  }

  leave(): void {
    this.#queued--
  }
}
