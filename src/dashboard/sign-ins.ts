import { createHash } from 'node:crypto'
import { toString as bytesToString } from 'uint8arrays'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'

/** A one-time code signs in once, and no later than this. */
export const CODE_MS_MAX = 2 * 60_000
/** Codes that wait to be used; at the bound the oldest goes. */
export const CODES_MAX = 8
/** A page that asked for nothing for so long is signed out. */
export const SIGN_IN_IDLE_MS = 12 * 60 * 60_000
/** Pages signed in at a time; at the bound the one that was silent longest is signed out. */
export const SIGN_INS_MAX = 16

/**
 * Who may use the dashboard. Whoever may use the control API gets a one-time code from it; a page exchanges the code for a token of its own, which it
 * sends with every request. Both are 32 random bytes, held as hashes in memory alone: a restart signs everybody out.
 */
export class SignIns {
  readonly #clock: Clock
  readonly #random: Random
  /** by hash, oldest first: when it was given, monotonic */
  readonly #codes = new Map<string, number>()
  /** by hash, the one used longest ago first: when it was used last, monotonic */
  readonly #tokens = new Map<string, number>()

  constructor({ clock, random }: { clock: Clock; random: Random }) {
    this.#clock = clock
    this.#random = random
  }

  /** A new one-time code; `expiresAtMs` in Unix ms. */
  issue(): { code: string; expiresAtMs: number } {
    const code = this.#secret()
    bounded(this.#codes, CODES_MAX)
    this.#codes.set(hashOf(code), this.#clock.monotonicMs())
    return { code, expiresAtMs: this.#clock.nowMs() + CODE_MS_MAX }
  }

  /** The token for a code that was given and not used; undefined for any other. */
  redeem(code: string): string | undefined {
    const hash = hashOf(code)
    const givenAtMs = this.#codes.get(hash)
    this.#codes.delete(hash)
    if (givenAtMs === undefined || this.#clock.monotonicMs() - givenAtMs > CODE_MS_MAX) return undefined
    const token = this.#secret()
    bounded(this.#tokens, SIGN_INS_MAX)
    this.#tokens.set(hashOf(token), this.#clock.monotonicMs())
    return token
  }

  /** Whether a token is in force; being asked keeps it so. */
  accepts(token: string): boolean {
    const hash = hashOf(token)
    const usedAtMs = this.#tokens.get(hash)
    this.#tokens.delete(hash)
    if (usedAtMs === undefined || this.#clock.monotonicMs() - usedAtMs > SIGN_IN_IDLE_MS) return false
    this.#tokens.set(hash, this.#clock.monotonicMs())
    return true
  }

  /** Signs a page out. */
  end(token: string): void {
    this.#tokens.delete(hashOf(token))
  }

  #secret(): string {
    return bytesToString(this.#random.bytes(32), 'base64url')
  }
}

/** Room for one more: the first goes at the bound. */
function bounded(map: Map<string, number>, max: number): void {
  while (map.size >= max) map.delete(map.keys().next().value as string)
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64')
}
