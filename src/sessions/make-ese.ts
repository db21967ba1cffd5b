import type { ProtocolError } from '../../protocol/errors.ts'
import { ESE_CHANNEL, SessionEse } from '../state/session-ese.ts'
import { contractLimit } from './session-errors.ts'
import type { SessionState } from './session-state.ts'
import type { JournalTag } from './session-store.ts'

/** What a session lends to its pair of ESEs. */
export interface EseLoan {
  /** @throws RookeryError where nothing more may be sent */
  checkRoom: (bytes: number) => void
  send: (channel: number, kind: number, payload: Uint8Array, tag: JournalTag) => void
  breach: (error: ProtocolError) => void
}

/** The pair of ESEs of a session, which send through it and live as long as it does. */
export function makeEse(state: SessionState, age: 'new' | 'held', { checkRoom, send, breach }: EseLoan): SessionEse {
  const { crypto, random, clock, eses, pair } = state.init
  const { contract } = state
  return new SessionEse({
    crypto,
    random,
    log: state.log,
    sid: state.record.sid,
    eids: () => state.record,
    store: eses,
    pair,
    age,
    contract,
    check: (kind, bytes) => {
      checkRoom(bytes)
      const limit = contract?.refusal('sent', { kind, payload: new Uint8Array(bytes) })
      if (limit !== undefined) throw contractLimit(limit)
    },
    send: (kind, payload) => {
      const done = Promise.withResolvers<void>()
      send(ESE_CHANNEL, kind, payload, { atMs: clock.nowMs(), resolve: done.resolve, reject: done.reject })
      return done.promise
    },
    commit: (ops) => state.commit(ops),
    refuse: (error) => {
      if (error.code === 'CONTRACT' && contract !== undefined) breach(error)
      else state.epoch?.abort('violation', error)
    },
    renew: (why) => state.epoch?.lose(why)
  })
}
