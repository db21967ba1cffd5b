import { equals, toHex } from '../../protocol/bytes.ts'
import { eid } from '../../protocol/identity/eid.ts'
import { ConnectionGuard } from '../../protocol/session/connection-guard.ts'
import { cookie } from '../../protocol/session/cookie.ts'
import type { Established } from '../../protocol/session/established.ts'
import { HEADER_BYTES, headerOf } from '../../protocol/session/header.ts'
import { Initiator, type InitiatorStep } from '../../protocol/session/initiator.ts'
import { PERIOD_MS } from '../../protocol/session/period-secrets.ts'
import { Responder, type ResponderConnection } from '../../protocol/session/responder.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { ADDR, fixedBytes, PEER_I, PEER_R, signerOf } from '../support/handshake-pair.ts'
import type { Space } from './explore.ts'
import { copied, fingerprint } from './snapshot.ts'

/** A mistake made on purpose, which the explorer must find. */
export type HandshakeBug = 'takes an ACK twice' | 'takes an old cookie' | 'takes a cookie after a restart'

/** How much may happen. */
export interface HandshakeBounds {
  /** of each side: an initiator that starts again opens a new exchange */
  readonly crashes: number
  readonly drops: number
  readonly doubles: number
  /** minutes that pass at once: one turns the period's secret, three outlive every cookie */
  readonly minutes: number
  /** times that the responder becomes busy, or is no longer */
  readonly turns: number
}

interface Wire {
  /** what is on its way, oldest first; any of it may come next */
  readonly frames: Uint8Array[]
}

interface HandshakeState {
  initiator: Initiator
  responder: Responder<string>
  readonly connection: ResponderConnection
  readonly toR: Wire
  readonly toI: Wire
  /** by epoch, in hex: what each side took for established */
  readonly opened: Map<string, Established>
  readonly taken: Map<string, Established>
  /** by R-cookie, in hex: when its NEG left */
  readonly offeredMs: Map<string, number>
  readonly left: { crashI: number; crashR: number; drops: number; doubles: number; minutes: number; turns: number }
  starts: number
  boots: number
  nowMs: number
  started: boolean
  readonly load: { busy: boolean }
}

const local = { i: signerOf(nodeCrypto, fixedBytes('seed i')), r: signerOf(nodeCrypto, fixedBytes('seed r')) }
const EID_R = eid(local.r.publicKey)
const KEPT: readonly object[] = [nodeCrypto, local, local.i, local.r]
const NONE: ReadonlySet<string> = new Set()
const MINUTE_MS = 61_000
const FRAMES_MAX = 4

function newInitiator(starts: number): Initiator {
  const name = `exchange ${starts}`
  return new Initiator({
    crypto: nodeCrypto,
    local: local.i,
    remoteEid: EID_R,
    peers: { initiator: PEER_I, responder: PEER_R },
    flags: 0,
    randomness: {
      iCookie: cookie(fixedBytes(`${name} cookie`, 8)),
      nonceI: fixedBytes(`${name} nonce`),
      ephSecret: fixedBytes(`${name} eph`)
    },
    contract: () => ({ kind: 'accept' })
  })
}

/** Secrets follow from the start and the period, so that a copy of a state draws what the state itself would. */
function newResponder(boots: number, nowMs: number, load: { busy: boolean }, bug: HandshakeBug | undefined): Responder<string> {
  const boot = bug === 'takes a cookie after a restart' ? 0 : boots
  const init = {
    crypto: nodeCrypto,
    held: load,
    random(this: { __current?: { e: bigint } }, length: number) {
      return fixedBytes(`boot ${boot} after ${this.__current?.e ?? 'nothing'}`, length)
    },
    nowMs,
    identities: () => [local.r],
    load(this: { held: { busy: boolean } }) {
      return this.held.busy ? ({ state: 'busy', waitSeconds: 1 } as const) : ({ state: 'free' } as const)
    },
    offer: () => ({}),
    policy: () => ({ kind: 'accept' }) as const
  }
  const responder = new Responder<string>(init as never)
  const open = responder as unknown as { __spent: unknown; __secrets: { __turn: () => void } }
  if (bug === 'takes an ACK twice') open.__spent = { isFull: () => false, has: () => false, spend: () => {}, release: () => {}, size: 0 }
  if (bug === 'takes an old cookie') open.__secrets.__turn = () => {}
  return responder
}

/**
 * Two nodes and the wire between them (protocol/README.md §6, Handshake): frames come in any order, are lost and come twice, the clock moves, the responder
 * is busy or not, and both crash. The responder takes a session only where the initiator has it, under the same keys, and each once; it keeps nothing before
 * a valid cookie; and from every state a good wire brings a new exchange to ESTABLISHED on both sides.
 */
export function handshakeSpace(bounds: HandshakeBounds, bug?: HandshakeBug): Space<HandshakeState> {
  const act = (state: HandshakeState, event: string) => happen(state, event, bug)
  return {
    initial() {
      const load = { busy: false }
      const { crashes, drops, doubles, minutes, turns } = bounds
      return {
        initiator: newInitiator(0),
        responder: newResponder(0, 0, load, bug),
        connection: { peers: { initiator: PEER_I, responder: PEER_R }, remoteAddr: ADDR, guard: new ConnectionGuard() },
        toR: { frames: [] },
        toI: { frames: [] },
        opened: new Map(),
        taken: new Map(),
        offeredMs: new Map(),
        left: { crashI: crashes, crashR: crashes, drops, doubles, minutes, turns },
        starts: 0,
        boots: 0,
        nowMs: 0,
        started: false,
        load
      }
    },
    copy: (state) => copied(state, KEPT),
    fingerprint: (state) => fingerprint(state, KEPT, NONE),
    events: eventsOf,
    happen: act,
    judge(state) {
      const { spentPairs } = state.responder.held
      if (spentPairs > state.opened.size && bug === undefined) throw new Error('the responder keeps more than what valid ACKs made it keep')
      becomesGood(state, act)
    }
  }
}

function eventsOf({ initiator, started, toR, toI, left }: HandshakeState): string[] {
  const events: string[] = []
  if (!started) events.push('start')
  for (const [name, wire] of [
    ['R', toR],
    ['I', toI]
  ] as const) {
    for (const index of wire.frames.keys()) {
      events.push(`deliver ${name} ${index}`)
      if (left.doubles > 0 && wire.frames.length < FRAMES_MAX) events.push(`double ${name} ${index}`)
      if (left.drops > 0) events.push(`drop ${name} ${index}`)
    }
  }
  if (initiator.state === 'HEARING') events.push('tick')
  if (left.minutes > 0) events.push('minute')
  if (left.turns > 0) events.push('turn')
  if (left.crashI > 0 && started) events.push('crash I')
  if (left.crashR > 0) events.push('crash R')
  return events
}

function happen(state: HandshakeState, event: string, bug: HandshakeBug | undefined): void {
  const [what = '', name = '', pick = '0'] = event.split(' ')
  const wire = name === 'R' ? state.toR : state.toI
  const { left } = state
  switch (what) {
    case 'start':
      state.started = true
      fromInitiator(state, state.initiator.start(state.nowMs))
      return
    case 'deliver': {
      const [frame] = wire.frames.splice(Number(pick), 1)
      if (name === 'R') toResponder(state, frame as Uint8Array)
      else toInitiator(state, frame as Uint8Array)
      return
    }
    case 'double':
      left.doubles--
      wire.frames.push((wire.frames[Number(pick)] as Uint8Array).slice())
      return
    case 'drop':
      left.drops--
      wire.frames.splice(Number(pick), 1)
      return
    case 'tick': {
      const waiting = state.initiator.tick(state.nowMs)
      if (waiting?.state !== 'HEARING') return
      state.nowMs = waiting.wakeAtMs
      const step = state.initiator.tick(state.nowMs)
      if (step !== undefined) fromInitiator(state, step)
      return
    }
    case 'minute':
      left.minutes--
      state.nowMs += MINUTE_MS
      state.responder.tick(state.nowMs)
      return
    case 'turn':
      left.turns--
      state.load.busy = !state.load.busy
      return
    case 'crash':
      if (name === 'I') {
        left.crashI--
        state.starts++
        state.initiator = newInitiator(state.starts)
        state.started = false
      } else {
        left.crashR--
        state.boots++
        state.responder = newResponder(state.boots, state.nowMs, state.load, bug)
      }
  }
}

function fromInitiator(state: HandshakeState, step: InitiatorStep): void {
  state.toR.frames.push(...step.send.map((frame) => frame.slice()))
  if (step.state !== 'ESTABLISHED') return
  if (!equals(step.established.remoteEid, EID_R)) throw new Error('the initiator is established with another than it asked for')
  state.opened.set(toHex(step.established.epoch), step.established)
}

function toInitiator(state: HandshakeState, frame: Uint8Array): void {
  if (state.started && state.initiator.state === 'HEARING') fromInitiator(state, state.initiator.receive(frame, state.nowMs))
}

function toResponder(state: HandshakeState, frame: Uint8Array): void {
  const step = state.responder.receive(frame, state.connection, state.nowMs)
  if (step.kind === 'send') {
    state.toI.frames.push(step.frame)
    state.offeredMs.set(toHex(headerOf(step.frame.subarray(0, HEADER_BYTES)).rCookie), state.nowMs)
  }
  if (step.kind === 'close' && step.frame !== undefined) state.toI.frames.push(step.frame)
  if (step.kind !== 'established') return
  const epoch = toHex(step.established.epoch)
  const other = state.opened.get(epoch)
  if (other === undefined) throw new Error('the responder is established in an exchange in which no initiator is')
  if (toHex(other.keys.i2r.key) !== toHex(step.established.keys.i2r.key)) throw new Error('both sides have other keys')
  const offeredMs = state.offeredMs.get(toHex(step.established.cookies.r))
  if (offeredMs === undefined || state.nowMs - offeredMs > 2 * PERIOD_MS) throw new Error('a cookie opened a session after its time')
  if (state.taken.has(epoch)) throw new Error('one ACK opened two sessions')
  state.taken.set(epoch, step.established)
}

/** All that is on its way is lost, nobody is busy, and the initiator opens a new exchange over a new connection: it must come to an end on both sides. */
function becomesGood(state: HandshakeState, act: (state: HandshakeState, event: string) => void): void {
  state.toR.frames.length = 0
  state.toI.frames.length = 0
  state.load.busy = false
  const before = state.taken.size
  state.left.crashI = 1
  act(state, 'crash I')
  Object.assign(state, { connection: { ...state.connection, guard: new ConnectionGuard() } })
  act(state, 'start')
  for (const event of ['deliver R 0', 'deliver I 0', 'deliver R 0']) act(state, event)
  if (state.taken.size !== before + 1 || state.initiator.state !== 'ESTABLISHED')
    throw new Error('a good wire does not bring a new exchange to its end')
}
