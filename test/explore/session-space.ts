import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { type Command, type SessionBug, SessionModel } from '../support/session-model.ts'
import type { Space } from './explore.ts'
import { copied, fingerprint } from './snapshot.ts'

/** How much may happen. */
export interface SessionBounds {
  /** channels of the transactions of either side, in the order in which they are sent */
  readonly a: readonly number[]
  readonly b: readonly number[]
  /** of each side */
  readonly crashes: number
  /** frames that are lost, and the epoch with them */
  readonly losses: number
  /** frames that come twice */
  readonly doubles: number
}

interface SessionState {
  readonly model: SessionModel
  readonly left: { crashA: number; crashB: number; losses: number; doubles: number }
  /** the frame that was delivered last, by direction and channel */
  readonly last: Map<string, Uint8Array>
}

const KEPT: readonly object[] = [nodeCrypto]
/** Counts for people, instants, and what a state's own judgement keeps. */
const SKIPPED: ReadonlySet<string> = new Set(['duplicates', '__duplicates', 'dropped', '__dropped', '__words', 'bug', 'applied', 'acked'])

/** What was applied on each channel, in its order there, and what was acknowledged: the order between channels promises nothing. */
function doneBy({ a, b }: SessionModel): unknown {
  return [a, b].map(({ disk, model }) => [
    [1, 2, 3].map((channel) => disk.applied.filter((one) => one.channel === channel).map(({ word }) => word)),
    [...model.acked].sort()
  ])
}

/**
 * Two nodes that share a session (protocol/README.md §6, Resume): every order in which they journal, send, deliver, apply, tidy and crash. A frame that is
 * lost takes its epoch with it, as on QUIC; one that comes twice is to be ignored. In every state nothing was applied twice or out of order and nothing
 * acknowledged is lost; and from every state a good wire brings both to the same chains, with all transactions applied and acknowledged.
 */
export function sessionSpace(bounds: SessionBounds, bug?: SessionBug): Space<SessionState> {
  return {
    initial() {
      const model = new SessionModel(bug === undefined ? {} : { bug })
      for (const [side, channels] of [
        [true, bounds.a],
        [false, bounds.b]
      ] as const) {
        for (const channel of channels) model.do({ do: 'send', side, channel, live: false })
      }
      return {
        model,
        left: { crashA: bounds.crashes, crashB: bounds.crashes, losses: bounds.losses, doubles: bounds.doubles },
        last: new Map()
      }
    },
    copy: (state) => copied(state, KEPT),
    fingerprint: (state) => fingerprint([state, doneBy(state.model)], KEPT, SKIPPED),
    events: eventsOf,
    happen(state, event) {
      const [what = '', name = '', pick = '0'] = event.split(' ')
      const side = name === 'a'
      const from = side ? state.model.a : state.model.b
      const { left } = state
      if (what === 'double') {
        left.doubles--
        const frame = state.last.get(`${name} ${pick}`) as Uint8Array
        if (left.doubles === 0) state.last.clear()
        const to = side ? state.model.b : state.model.a
        to.take(to.stream.receive(Number(pick), frame.slice(), 0))
        return
      }
      if (what === 'deliver') {
        const channels = deliverable(state.model, side)
        const at = channels.indexOf(Number(pick))
        const [frame] = from.wire.get(Number(pick)) ?? []
        if (left.doubles > 0 && frame !== undefined) state.last.set(`${name} ${pick}`, frame.slice())
        state.model.do({ do: 'deliver', side, pick: at })
        return
      }
      if (what === 'crash') side ? left.crashA-- : left.crashB--
      if (what === 'lose') left.losses--
      if (what === 'crash' || what === 'lose') state.last.clear()
      state.model.do((what === 'apply' || what === 'lose' ? { do: what, side, pick: Number(pick) } : { do: what, side }) as Command)
    },
    judge: ({ model }) => model.quiesce()
  }
}

function deliverable(model: SessionModel, side: boolean): number[] {
  const [from, to] = side ? [model.a, model.b] : [model.b, model.a]
  return [...from.wire]
    .filter(([channel, frames]) => frames.length > 0 && (channel === 0 || to.stream.phase !== 'opening'))
    .map(([channel]) => channel)
}

function eventsOf({ model, left, last }: SessionState): string[] {
  const events: string[] = []
  for (const [name, side, one] of [
    ['a', true, model.a],
    ['b', false, model.b]
  ] as const) {
    if (one.pending.length > 0) events.push(`journal ${name}`)
    if (one.stream.channels(0).length > 0) events.push(`flush ${name}`)
    for (const channel of deliverable(model, side)) events.push(`deliver ${name} ${channel}`)
    const inHand = [...one.inHand].filter(([, items]) => items.length > 0)
    for (const index of inHand.keys()) events.push(`apply ${name} ${index}`)
    if (one.disk.journal.size > one.journal.length || one.disk.run.seq < one.ledger.run.seq) events.push(`tidy ${name}`)
    if ((side ? left.crashA : left.crashB) > 0) events.push(`crash ${name}`)
  }
  const waits = [...model.a.wire.values(), ...model.b.wire.values()].some((frames) => frames.length > 0)
  if (left.losses > 0 && waits) events.push('lose a 0')
  if (left.doubles > 0) for (const key of last.keys()) events.push(`double ${key}`)
  return events
}
