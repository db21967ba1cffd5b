import { ProtocolError } from '../../protocol/errors.ts'
import type { CheckpointConflict } from '../../protocol/session/stream-effects.ts'
import { revokeByCheckpoints } from '../evidence/revoke.ts'
import type { LiveSession } from './live-session.ts'
import type { SessionState } from './session-state.ts'

/** A broken contract proves nothing to others: it is this node's own experience, and is not published (G-52). */
export function distrust({ init, log, record }: SessionState, error: Error): void {
  const field = error instanceof ProtocolError && error.field !== undefined ? ` (${error.field})` : ''
  init.evidence?.distrust(record.remote, `contract${field}: ${error.message}`).catch((cause: unknown) => {
    log.error({ err: cause }, 'a breach of contract could not be written down')
  })
}

/** The peer contradicts itself, provably: the session is revoked, and the proof goes out. @param erase - before the first byte of the frame leaves (TRM-06) */
export function answerContradiction(
  { init, log }: SessionState,
  epoch: LiveSession,
  conflict: CheckpointConflict,
  erase: () => void
): void {
  const { evidence } = init
  if (evidence === undefined) return
  const session = {
    remote: epoch.established.remoteEid,
    revoke: (payload: Uint8Array) => {
      const frame = epoch.revoke(payload)
      erase()
      return frame
    },
    send: (frame: Uint8Array) => epoch.sendLast(frame)
  }
  revokeByCheckpoints(evidence, session, conflict).catch((error: unknown) => {
    log.error({ err: error }, 'a session could not be revoked')
  })
}

/** The peer revoked with a proof, which is judged like any other. */
export function judgeRevocation({ init, log }: SessionState, epoch: LiveSession, payload: Uint8Array): void {
  log.warn({ bytes: payload.length }, 'the peer revoked the session with a proof')
  init.evidence?.onRevocation(payload, { peer: epoch.peer }).then(
    (verdict) => log.info({ verdict }, 'the proof was judged'),
    (error: unknown) => {
      if (error instanceof ProtocolError) log.debug({ code: error.code }, 'the proof proves nothing')
      else log.error({ err: error }, 'the proof could not be judged')
    }
  )
}
