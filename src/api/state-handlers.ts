import { fromString as bytesFromString, toString as bytesToString } from 'uint8arrays'
import { eidToDid } from '../../protocol/identity/eid.ts'
import type { EseValue, EseWrite } from '../../protocol/state/batch.ts'
import type { JsonPatchOp } from '../../protocol/state/patch.ts'
import { RookeryError } from '../errors.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { Session } from '../sessions/session.ts'
import type { Json } from '../tasks/todo.ts'
import type { ControlHandlers } from './control-server.ts'
import type { ControlParams } from './methods.ts'
import type { StateEntry, StateResults } from './state-methods.ts'

const SET_WAIT_DEFAULT_MS = 10_000

/** The control methods over the state of sessions. */
export function stateHandlers(node: RookeryNode): Pick<ControlHandlers, keyof StateResults> {
  return {
    async 'state.peers'() {
      const peers = []
      // a session that only the disk holds has no values
      for (const { id } of node.sessions.list()) {
        const session = await node.sessions.get(id)
        if (session === undefined) continue
        const { local, remote, state } = session.info()
        const { own, peer, exclusive } = session.states
        peers.push({ id, local, remote, session: state, exclusive, own: own.info(), peer: peer.info() })
      }
      return peers
    },
    async 'state.get'({ peer, side, key }) {
      const session = await sessionWith(node, peer)
      const { id, remote } = session.info()
      const state = session.states[side]
      if (key !== undefined && state.get(key) === undefined) {
        throw new RookeryError('STATE_KEY_UNKNOWN', `nothing is at "${key}"`, {
          kind: 'notFound',
          field: 'key',
          value: key,
          remedy: 'see all keys with `rookery state get PEER`'
        })
      }
      const entries = key === undefined ? state.entries() : [[key, state.get(key) as EseValue] as [string, EseValue]]
      return { id, remote, side, info: state.info(), entries: entries.map(([name, value]) => entryOf(name, value)) }
    },
    async 'state.set'({ peer, changes, waitMs = SET_WAIT_DEFAULT_MS }, { signal, progress }) {
      const session = await sessionWith(node, peer)
      const { own } = session.states
      const done = own.write(changes.map(writeOf)).then(() => 'acknowledged' as const)
      done.catch(() => {})
      progress('waiting until the peer has it')
      const late = Promise.withResolvers<'journaled'>()
      const cancel = node.clock.after(waitMs, () => late.resolve('journaled'))
      const hungUp = () => late.resolve('journaled')
      signal.addEventListener('abort', hungUp, { once: true })
      try {
        const outcome = await Promise.race([done, late.promise])
        const { id, remote } = session.info()
        return { id, remote, outcome, info: own.info() }
      } finally {
        cancel()
        signal.removeEventListener('abort', hungUp)
      }
    },
    async 'state.watch'({ peer, side, keys }, { signal, emit }) {
      const session = await sessionWith(node, peer)
      const { id } = session.info()
      const ends = AbortSignal.any([signal, node.signal])
      const watch = session.states[side].watch({ signal: ends, ...(keys === undefined ? {} : { keys }) })
      await emit({ kind: 'watching', id })
      for await (const event of watch) {
        const { kind } = event
        await emit(kind === 'set' ? { kind, ...entryOf(event.key, event.value) } : event)
      }
      return { id, ended: session.info().endReason ?? 'stopped' }
    }
  }
}

function entryOf(key: string, value: EseValue): StateEntry {
  return value instanceof Uint8Array ? { key, base64: bytesToString(value, 'base64pad') } : { key, value: value as Json }
}

function writeOf(change: ControlParams<'state.set'>['changes'][number]): EseWrite {
  switch (change.op) {
    case 'blob':
      return { op: 'set', key: change.key, value: bytesFromString(change.base64, 'base64pad') }
    case 'patch':
      return { op: 'patch', key: change.key, patch: change.patch as unknown as JsonPatchOp[] }
    default:
      return change
  }
}

/** @throws RookeryError `SESSION_UNKNOWN`, `PEER_AMBIGUOUS`, `DID_INVALID`, `AGENT_UNKNOWN` */
async function sessionWith(node: RookeryNode, peer: string): Promise<Session> {
  if (/^[0-9a-f]{32}$/.test(peer)) return await node.session(peer)
  const did = eidToDid(node.newestEid(node.agents.eidOf(peer)))
  const [first, ...others] = (await node.sessions.listAll()).filter(({ remote }) => remote === did)
  if (first === undefined) {
    throw new RookeryError('SESSION_UNKNOWN', `there is no session with ${did}`, {
      kind: 'notFound',
      field: 'peer',
      value: peer,
      remedy: `open one with \`rookery session open ${did}\``
    })
  }
  if (others.length > 0) {
    throw new RookeryError('PEER_AMBIGUOUS', `${others.length + 1} of our agents have a session with ${did}`, {
      kind: 'usage',
      field: 'peer',
      value: peer,
      remedy: 'name the session in place of the peer: see `rookery state peers`',
      data: { sessions: [first, ...others].map(({ id }) => id) }
    })
  }
  return await node.session(first.id)
}
