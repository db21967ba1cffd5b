import type { RunningSessionManager } from '../sessions/settings.ts'
import type { SessionEvidence } from './evidence.ts'

/** The same manager, which opens no session to whom the evidence refuses; callers from there meet the policy. */
export function guardedSessions<M extends RunningSessionManager>(manager: M, evidence: SessionEvidence): M {
  const open: M['open'] = async (from, to, address, options) => {
    evidence.admit(to)
    return await manager.open(from, to, address, options)
  }
  return new Proxy(manager, {
    get(target, name) {
      if (name === 'open') return open
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    }
  })
}
