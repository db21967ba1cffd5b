import { equals, toHex } from '../../../protocol/bytes.ts'
import { ProtocolError } from '../../../protocol/errors.ts'
import { ConnectionGuard } from '../../../protocol/session/connection-guard.ts'
import type { Established } from '../../../protocol/session/established.ts'
import { FLAG } from '../../../protocol/session/flags.ts'
import type { Initiator, InitiatorStep } from '../../../protocol/session/initiator.ts'
import type { ResponderConnection, ResponderStep } from '../../../protocol/session/responder.ts'
import { GroupWorld } from '../../support/group-world.ts'
import { connectionOf, fixedBytes, handshakePair, PEER_R } from '../../support/handshake-pair.ts'
import { type Command, SessionModel } from '../../support/session-model.ts'
import { Script, tampered } from '../engine/script.ts'
import { vectorBytes } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { mustBe } from './support.ts'

const STEPS_MAX = 400

/** Frames that were ever on a wire, oldest first; a hostile hand picks among them. */
const FRAMES_KEPT = 64

/**
 * Two initiators and a responder between which an attacker holds the wire: frames go through, are changed, doubled, held back, swapped between
 * exchanges and connections, and the clock moves. Whoever is established is established with the other side of the very same exchange.
 */
const handshake: FuzzTarget = {
  name: 'handshake',
  bytesMax: 512,
  mutators: [],
  seeds: () => [
    Uint8Array.from([0, 0, 1, 0, 2, 1, 2, 2]),
    Uint8Array.from([1, 1, 1, 0, 1, 0, 2, 1, 2, 2, 4, 20, 2, 3, 2, 4]),
    Uint8Array.from([2, 0, 1, 0, 1, 1, 2, 0, 2, 1, 2, 2, 2, 3, 3, 0, 0, 5, 3, 1, 1, 9]),
    ...vectorBytes(['pss-init', 'pss-neg'])
      .filter(({ length }) => length > 30 && length < 260)
      .slice(0, 8)
      .map((frame) => Uint8Array.from([0, 0, 1, 0, 5, 255, ...frame]))
  ],
  run(bytes) {
    new HandshakeWorld(new Script(bytes)).run()
  }
}

class HandshakeWorld {
  readonly #script: Script
  readonly #pair: ReturnType<typeof handshakePair>
  readonly #initiators: Initiator[]
  readonly #connections = [connectionOf(), connectionOf({ guard: new ConnectionGuard(), remoteAddr: fixedBytes('another address', 11) })]
  readonly #frames: Uint8Array[] = []
  readonly #opened = new Map<string, Established>()
  readonly #epochs = new Set<string>()
  #load: 'free' | 'busy' | 'full' = 'free'
  #nowMs = 0

  constructor(script: Script) {
    this.#script = script
    const flags = [0, FLAG.SFC, FLAG.SFC | FLAG.GROUP, FLAG.RESUME, FLAG.RESUME | FLAG.EXCLUSIVE | FLAG.SFC][script.below(5)] as number
    this.#pair = handshakePair({
      flags,
      ...((flags & FLAG.RESUME) === 0 ? {} : { resumeId: fixedBytes('resume', 16) }),
      load: () => (this.#load === 'free' ? { state: 'free' } : { state: this.#load, waitSeconds: 3 }),
      policy: () => (this.#load === 'full' ? { kind: 'refuse', reason: 'full' } : { kind: 'accept' }),
      spentPairsMax: 1 + script.below(3)
    })
    this.#initiators = [this.#pair.initiator, this.#pair.initiatorOf('second').initiator]
  }

  run(): void {
    for (let step = 0; step < STEPS_MAX && !this.#script.isOver; step++) this.#step()
  }

  #step(): void {
    const script = this.#script
    const initiator = this.#initiators[script.below(2)] as Initiator
    switch (script.below(7)) {
      case 0:
        if (initiator.state === 'CLOSED' && !this.#started.has(initiator)) {
          this.#started.add(initiator)
          this.#from(initiator, initiator.start(this.#nowMs))
        }
        break
      case 1:
        this.#toResponder(this.#frame())
        break
      case 2:
        this.#toInitiator(initiator, this.#frame())
        break
      case 3:
        this.#toResponder(tampered(this.#frame(), script))
        break
      case 4:
        this.#toInitiator(initiator, tampered(this.#frame(), script))
        break
      case 5: {
        this.#nowMs += script.u16() * ([1, 10, 1_000][script.below(3)] as number)
        const step = initiator.tick(this.#nowMs)
        if (step !== undefined) this.#from(initiator, step)
        this.#pair.responder.tick(this.#nowMs)
        break
      }
      default:
        this.#load = (['free', 'busy', 'full'] as const)[script.below(3)] as 'free'
    }
    mustBe(this.#pair.responder.held.spentPairs <= 3, 'the responder keeps its bound')
  }

  readonly #started = new Set<Initiator>()

  /** The newest one mostly. */
  #frame(): Uint8Array {
    const back = this.#script.below(4)
    return this.#frames.at(-1 - back) ?? this.#frames[0] ?? this.#script.bytes(255)
  }

  #put(frame: Uint8Array): void {
    this.#frames.push(frame)
    if (this.#frames.length > FRAMES_KEPT) this.#frames.shift()
  }

  #toInitiator(initiator: Initiator, frame: Uint8Array): void {
    if (initiator.state === 'ESTABLISHED' || !this.#started.has(initiator)) return
    this.#from(initiator, initiator.receive(frame, this.#nowMs))
  }

  #from(initiator: Initiator, step: InitiatorStep): void {
    for (const frame of step.send) this.#put(frame)
    if (step.state !== 'ESTABLISHED') return
    mustBe(initiator.state === 'ESTABLISHED', 'the step and the state agree')
    mustBe(equals(step.established.remoteEid, this.#pair.eidR), 'the initiator is established with whom it asked for')
    this.#opened.set(toHex(step.established.epoch), step.established)
  }

  #toResponder(frame: Uint8Array): void {
    const connection = this.#connections[this.#script.below(8) === 0 ? 1 : 0] as ResponderConnection
    const step: ResponderStep<string> = this.#pair.responder.receive(frame, connection, this.#nowMs)
    if (step.kind === 'send') this.#put(step.frame)
    if (step.kind === 'close' && step.frame !== undefined) this.#put(step.frame)
    if (step.kind !== 'established') return
    const { established } = step
    const other = this.#opened.get(toHex(established.epoch))
    mustBe(other !== undefined, 'the responder is established only with an initiator that is established in the same exchange')
    mustBe(equals(established.remoteEid, this.#pair.eidI) && equals(other.sid, established.sid), 'both sides name the same session')
    mustBe(
      other.flags === established.flags && toHex(other.keys.i2r.key) === toHex(established.keys.i2r.key),
      'both sides have the same keys and flags'
    )
    mustBe(equals(connection.peers.responder, PEER_R), 'the exchange belongs to its connection')
    mustBe(!this.#epochs.has(toHex(established.epoch)), 'an exchange opens one session')
    this.#epochs.add(toHex(established.epoch))
  }
}

/**
 * Two ends of a session on disks that survive: sends, syncs, deliveries, crashes and new epochs in any order, and an attacker on the wire who doubles,
 * drops, swaps and changes frames. Nothing is applied twice or out of order, nothing acknowledged is lost, and on a good wire both ends agree in the end.
 */
const session: FuzzTarget = {
  name: 'session',
  bytesMax: 512,
  mutators: [],
  seeds: () => [
    Uint8Array.from([0, 1, 1, 2, 1, 3, 1, 4, 0, 0, 4, 1, 0, 5, 0, 0, 3, 0, 4, 1, 0]),
    Uint8Array.from([0, 1, 1, 0, 0, 1, 2, 1, 3, 1, 9, 0, 4, 0, 0, 6, 1, 5, 0, 0, 8, 1, 3, 1, 4, 0, 0]),
    Uint8Array.from([...Array(12)].flatMap((_, i) => [0, i & 1, 1 + (i % 3), 2, i & 1, 3, i & 1, 4, 1 - (i & 1), 0, 5, 1 - (i & 1), 0])),
    Uint8Array.from([0, 1, 1, 2, 1, 3, 1, 10, 1, 0, 4, 0, 0, 11, 1, 0, 4, 0, 0, 12, 1, 0, 3, 4, 5, 6, 4, 0, 0])
  ],
  run(bytes) {
    const script = new Script(bytes)
    const model = new SessionModel()
    for (let step = 0; step < STEPS_MAX && !script.isOver; step++) {
      const kind = script.below(14)
      if (kind < 10) honest(model, kind, script)
      else if (hostile(model, kind, script) === 'lost') model.do({ do: 'cut', swap: script.flag() })
    }
    model.quiesce()
  }
}

function honest(model: SessionModel, kind: number, script: Script): void {
  const side = script.flag()
  const command: Command = (
    [
      () => ({ do: 'send', side, channel: 1 + script.below(3), live: false }),
      () => ({ do: 'send', side, channel: 1 + script.below(3), live: true }),
      () => ({ do: 'journal', side }),
      () => ({ do: 'flush', side }),
      () => ({ do: 'deliver', side, pick: script.below(8) }),
      () => ({ do: 'apply', side, pick: script.below(8) }),
      () => ({ do: 'tidy', side }),
      () => ({ do: 'cut', swap: side }),
      () => ({ do: 'crash', side }),
      () => ({ do: 'lose', side, pick: script.below(8) })
    ][kind] as () => Command
  )()
  model.do(command)
}

/** One frame in a hostile hand, and then its delivery. @returns `lost` where the epoch cannot go on */
function hostile(model: SessionModel, kind: number, script: Script): 'goes on' | 'lost' {
  const from = script.flag() ? model.a : model.b
  const to = from === model.a ? model.b : model.a
  const wires = [...from.wire].filter(([, frames]) => frames.length > 0)
  const chosen = wires[script.below(wires.length)]
  if (chosen === undefined) return 'goes on'
  const [channel, frames] = chosen
  const frame = frames[script.below(frames.length)] as Uint8Array
  // a driver reads the handshake's stream only until READY is there
  if (channel !== 0 && to.stream.phase === 'opening') return 'goes on'
  const given = kind === 11 ? tampered(frame, script) : frame
  const stream = kind === 12 ? script.below(70) : channel
  try {
    to.take(to.stream.receive(stream, given, 0))
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error
    return 'lost'
  }
  if (kind === 13) frames.splice(frames.indexOf(frame), 1)
  // a stream that broke off as a whole told its reason; the session's disks are as good as before
  for (const side of [from, to]) side.broken = undefined
  return 'lost'
}

/** Three agents of one group on links that are made, cut and held by an attacker, who changes what is on its way; crashes and time. */
const group: FuzzTarget = {
  name: 'group',
  bytesMax: 384,
  mutators: [],
  seeds: () => [
    Uint8Array.from([0, 1, 0, 2, 1, 0, 1, 1, 0, 2, 1, 1, 2, 2, 0, 3, 4, 200, 3, 3, 5, 0]),
    Uint8Array.from([0, 1, 1, 0, 1, 2, 0, 1, 2, 1, 1, 3, 3, 6, 1, 7, 1, 4, 255, 8, 0, 3, 3, 5, 1, 2, 4, 100]),
    Uint8Array.from([0, 1, 1, 0, 1, 9, 0, 0, 17, 2, 0, 1, 3, 9, 0, 3, 40, 7, 7, 3, 3])
  ],
  run(bytes) {
    const script = new Script(bytes)
    const world = new GroupWorld(3, 1)
    world.change({ add: [world.agent(1).eid, world.agent(2).eid] })
    let isHostile = false
    for (let step = 0; step < 120 && !script.isOver; step++) isHostile = groupStep(world, script) === 'hostile' || isHostile
    for (const agent of world.agents) world.start(agent)
    world.shape(() => true)
    world.settle(120_000)
    mustBe(world.leaks().length === 0, `nobody opens what is not for it: ${world.leaks().join()}`)
    if (!isHostile) mustBe(world.differences().length === 0, `members that reach each other agree: ${world.differences().join()}`)
  }
}

function groupStep(world: GroupWorld, script: Script): 'honest' | 'hostile' {
  const [a, b] = [world.agent(script.below(3)), world.agent(script.below(3))]
  switch (script.below(10)) {
    case 0:
      world.link(a, b)
      break
    case 1:
      world.cut(a, b)
      break
    case 2:
      world.write(a, [{ op: 'set', key: `k${script.below(4)}`, value: script.below(8) }])
      break
    case 3: {
      const waiting = world.waiting
      const link = waiting[script.below(waiting.length)]
      if (link !== undefined) world.deliver(link)
      break
    }
    case 4:
      world.settle(script.u8() * 50)
      break
    case 5:
      world.change(script.flag() ? { remove: a === world.owner ? [] : [a.eid] } : { add: [a.eid], history: 'snapshot' })
      break
    case 6:
      world.crash(a)
      break
    case 7:
      world.start(a)
      break
    case 8: {
      const op = [...world.ops.values()][script.below(world.ops.size)]
      if (op === undefined || !a.isUp || a.core === undefined || a === b || !world.isLinked(a, b)) break
      world.receive(a, b, { kind: 0x08, payload: tampered(op, script) })
      return 'hostile'
    }
    default:
      if (!a.isUp || a.core === undefined || a === b || !world.isLinked(a, b)) break
      world.receive(a, b, { kind: [0x05, 0x08, 0x85][script.below(3)] as number, payload: script.bytes(200) })
      return 'hostile'
  }
  return 'honest'
}

export const targets: readonly FuzzTarget[] = [handshake, session, group]
