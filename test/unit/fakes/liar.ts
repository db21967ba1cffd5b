import type { Signer } from '../../../protocol/crypto/provider.ts'
import { signCheckpoint } from '../../../protocol/session/checkpoint.ts'
import { ITEM_KINDS } from '../../../protocol/session/items.ts'
import { SessionStream } from '../../../protocol/session/stream.ts'
import { CONTROL_CHANNEL } from '../../../protocol/session/stream-init.ts'
import type { DurableSession } from '../../../src/sessions/durable-session.ts'
import type { Session } from '../../../src/sessions/session.ts'

const smuggled = new WeakSet<Uint8Array>()
const { queue } = SessionStream.prototype
SessionStream.prototype.queue = function (channel, kind, payload, tag) {
  if (!smuggled.has(payload)) return queue.call(this, channel, kind, payload, tag)
  return queue.call(this, CONTROL_CHANNEL, ITEM_KINDS.checkpoint, payload, tag)
}

/** Sends a checkpoint of this side's direction that no honest node signs: chain `hash` for number `seq`, ahead of all that was sent. */
export function lie(session: Session, signer: Signer, seq: bigint, hash: number): Uint8Array {
  const { epoch, record } = session as DurableSession
  if (epoch === undefined) throw new TypeError('the session has no connection')
  const { sid, epoch: th3, localEid } = epoch.established
  const subject = { sid, epoch: th3, direction: record.direction, eid: localEid }
  const checkpoint = signCheckpoint(subject, { seq, hash: new Uint8Array(32).fill(hash) }, signer)
  smuggled.add(checkpoint)
  session.send(16, ITEM_KINDS.live, checkpoint).catch(() => {}) // not acknowledged, so told as lost when the session ends
  return checkpoint
}
