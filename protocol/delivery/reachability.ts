import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import type { Eid } from '../identity/eid.ts'
import type { ReachabilityMode, WakeWindow } from './modes.ts'

/** An hour, open for five minutes: what `hourly_wake` means unless the owner set another rhythm. */
export const WAKE_PERIOD_DEFAULT_SEC = 3_600
export const WAKE_OPEN_DEFAULT_SEC = 300
export const WAKE_PERIOD_MAX_SEC = 7 * 86_400

export interface ReachabilitySetting {
  mode: ReachabilityMode
  /** of `hourly_wake`; without one it never opens */
  window?: WakeWindow | undefined
  /** of `sleep`: when the agent means to be back, Unix ms */
  untilMs?: number | undefined
  /** whether `hourly_wake` and `sleep` keep what arrives (OD-09, OD-11); default on. The other two never queue. */
  queueing?: 'on' | 'off' | undefined
}

export interface ReachabilityInstant {
  nowMs: number
  /** the agent's process holds a live lease at the control API (G-16) */
  attached: boolean
}

export type Reachability =
  | { state: 'accepts' }
  | {
      state: 'asleep'
      /** whether a message may be kept for later */
      queues: boolean
      /** whole seconds until live inbound is taken again, where that is known (OD-16) */
      retryAfterSec?: number
    }

/**
 * What the four modes say at an instant (OD-05 … OD-11):
 * `always_on` accepts; `session` accepts while attached and never queues; `hourly_wake` accepts inside its window while attached; `sleep`
 * never accepts.
 */
export function reachabilityAt(setting: ReachabilitySetting, { nowMs, attached }: ReachabilityInstant): Reachability {
  const queues = setting.queueing !== 'off'
  switch (setting.mode) {
    case 'always_on':
      return { state: 'accepts' }
    case 'session':
      return attached ? { state: 'accepts' } : { state: 'asleep', queues: false }
    case 'hourly_wake': {
      if (setting.window === undefined) return { state: 'asleep', queues }
      if (!isOpen(setting.window, nowMs)) return asleep(queues, nextOpeningMs(setting.window, nowMs), nowMs)
      return attached ? { state: 'accepts' } : { state: 'asleep', queues }
    }
    case 'sleep':
      return asleep(queues, setting.untilMs, nowMs)
  }
}

function asleep(queues: boolean, untilMs: number | undefined, nowMs: number): Reachability {
  if (untilMs === undefined || untilMs <= nowMs) return { state: 'asleep', queues }
  return { state: 'asleep', queues, retryAfterSec: Math.ceil((untilMs - nowMs) / 1_000) }
}

/** Whether an agent of this setting keeps messages at all: the answer to a deposit that crosses with waking up does not hang on the instant. */
export function keepsMessages(setting: ReachabilitySetting): boolean {
  return (setting.mode === 'hourly_wake' || setting.mode === 'sleep') && setting.queueing !== 'off'
}

/** Open from `offsetSec` on, with it, for `openSec`, without the last instant; a window may reach over the end of its period. */
export function isOpen(window: WakeWindow, nowMs: number): boolean {
  return sinceOpeningMs(window, nowMs) < window.openSec * 1_000
}

/** The next opening after `nowMs`, Unix ms; while open, that of the following period. */
export function nextOpeningMs(window: WakeWindow, nowMs: number): number {
  return nowMs - sinceOpeningMs(window, nowMs) + window.periodSec * 1_000
}

function sinceOpeningMs(window: WakeWindow, nowMs: number): number {
  const periodMs = window.periodSec * 1_000
  const since = (nowMs - window.offsetSec * 1_000) % periodMs
  return since < 0 ? since + periodMs : since
}

/** @throws ProtocolError `RANGE` that names the member: whole seconds, 0 < openSec ≤ periodSec ≤ a week, offsetSec < periodSec */
export function checkedWindow(window: WakeWindow): WakeWindow {
  const within = (name: keyof WakeWindow, min: number, max: number) => {
    const value = window[name]
    if (!Number.isInteger(value) || value < min || value > max) {
      throw new ProtocolError('RANGE', `window.${name} is ${value}, not a whole number from ${min} to ${max}`, { field: `window.${name}` })
    }
    return value
  }
  const periodSec = within('periodSec', 60, WAKE_PERIOD_MAX_SEC)
  return { periodSec, openSec: within('openSec', 1, periodSec), offsetSec: within('offsetSec', 0, periodSec - 1) }
}

/**
 * The window that an agent publishes: its offset is H("rookery/v1/wake" ‖ 0x00 ‖ EID), first six bytes, modulo the period, so that agents
 * of one setting wake at different seconds (OD-49) and what is published is final (G-14).
 * @throws ProtocolError `RANGE`
 */
export function wakeWindowOf(
  crypto: CryptoProvider,
  eid: Eid,
  { periodSec = WAKE_PERIOD_DEFAULT_SEC, openSec = WAKE_OPEN_DEFAULT_SEC }: { periodSec?: number; openSec?: number } = {}
): WakeWindow {
  const digest = crypto.sha256(context('wake'), eid)
  let value = 0
  for (const byte of digest.subarray(0, 6)) value = value * 256 + byte
  return checkedWindow({ periodSec, openSec, offsetSec: value % periodSec })
}

/** The window of the draft's author: five minutes from the UTC minute that a wake seed's FNV-1a names. Read, never published by us. */
export function wakeWindowOfSeed(wakeSeed: string): WakeWindow {
  return { periodSec: 3_600, openSec: 300, offsetSec: (fnv1a32(wakeSeed) % 60) * 60 }
}

/** FNV-1a, 32 bits, over UTF-16 code units. */
export function fnv1a32(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash >>> 0
}
