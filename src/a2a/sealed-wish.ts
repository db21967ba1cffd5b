import { OBJECT_LIFE_MAX_MS } from '../../protocol/delivery/object.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { OutgoingObjects } from '../delivery/outgoing.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import { noTracer, type Tracer } from '../platform/tracer.ts'
import type { Locators } from '../spaces/spaces.ts'
import type { JsonObject } from '../tasks/todo.ts'
import { extensionsOf, sealSend } from './keep-asleep.ts'
import { checkParams } from './params.ts'

/**
 * Seals a message that is about to be sent, with the end that its sender wishes (G-09): whatever keeps it later keeps these bytes, so nowhere does it outlive the
 * wish. The same message sealed before keeps its first end.
 * @returns forgets the copy, for a message that was not queued
 * @throws RookeryError `TTL_INVALID`, what `resolve` and {@link sealSend} throw; A2aError for a message that is none
 */
export async function sealForWish(
  {
    agents,
    locators,
    outgoing,
    tracer = noTracer
  }: {
    agents: { byEid(eid: Eid): LocalAgent | undefined }
    locators: Pick<Locators, 'resolve'>
    outgoing: Pick<OutgoingObjects, 'seal' | 'drop'>
    tracer?: Tracer
  },
  { from, to, message, ttlMs }: { from: LocalAgent; to: Eid; message: JsonObject; ttlMs: number },
  signal: AbortSignal
): Promise<{ forget(): Promise<void> }> {
  checkTtl(ttlMs)
  const params: JsonObject = { message }
  checkParams('SendMessage', params)
  const { mailboxKey } = agents.byEid(to) ?? (await locators.resolve(to, { signal }))
  const extensions = extensionsOf(message)
  const { key } = await sealSend(outgoing, { from, to, mailboxKey, params, extensions, ttlMs, traceparent: tracer.forPeers() })
  return { forget: () => outgoing.drop(key) }
}

function checkTtl(ttlMs: number): void {
  if (Number.isInteger(ttlMs) && ttlMs > 0 && ttlMs <= OBJECT_LIFE_MAX_MS) return
  throw new RookeryError('TTL_INVALID', `a message waits a whole number of ms from 1 to ${OBJECT_LIFE_MAX_MS} (six days), not ${ttlMs}`, {
    kind: 'usage',
    field: 'ttlMs',
    value: ttlMs,
    remedy: 'leave it out for the longest'
  })
}
