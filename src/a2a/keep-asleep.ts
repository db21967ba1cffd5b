import { toHex, utf8 } from '../../protocol/bytes.ts'
import { canonicalJson } from '../../protocol/canonical-json.ts'
import { PURPOSE_A2A_MESSAGE } from '../../protocol/delivery/object.ts'
import { keepsMessages } from '../../protocol/delivery/reachability.ts'
import type { Refusal } from '../../protocol/delivery/refusals.ts'
import { sealedParameters } from '../../protocol/delivery/sealed-request.ts'
import { contractUriIn } from '../../protocol/ecc/uris.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { AsleepQueue } from '../delivery/asleep-queue.ts'
import type { OutgoingObjects } from '../delivery/outgoing.ts'
import { refusalOfAnswer } from '../delivery/queue-refusal.ts'
import { RookeryError } from '../errors.ts'
import type { VerifiedPrincipal } from '../grants/principal.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Random } from '../platform/random.ts'
import { noTracer, type Tracer } from '../platform/tracer.ts'
import { ENVELOPE_DEPTH_MAX } from '../tasks/json-bounds.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'

const OPAQUE_ID_BYTES = 16

export type KeepAsleep = (input: {
  principal: VerifiedPrincipal
  to: LocalAgent
  params: JsonObject
  /** URIs that the caller activates */
  extensions?: readonly string[] | undefined
  retryAfterSec: number | undefined
}) => Promise<Kept>

/** `again`: the very same message waits there already. */
export type Kept = Refusal & { again?: boolean }

/**
 * A checked send as a governed object of purpose `a2a:message`, the same bytes for the same messageId until it expires. It carries no
 * `configuration`, which is about an answer that nobody waits for any more.
 * @throws what {@link OutgoingObjects.seal} throws
 */
export async function sealSend(outgoing: Pick<OutgoingObjects, 'seal'>, input: SendToSeal): ReturnType<OutgoingObjects['seal']> {
  return await outgoing.seal(sealingOf(input))
}

interface SendToSeal {
  from: LocalAgent
  /** what the object is named by; default: the message's own id */
  messageId?: string
  to: Eid
  mailboxKey: Uint8Array
  params: JsonObject
  /** URIs that the caller activates; those that the work itself depends on go along */
  extensions?: readonly string[] | undefined
  /** default: as long as an object may live */
  ttlMs?: number
  /** the span that it is sealed in; it names the message by nothing */
  traceparent?: string | undefined
}

function sealingOf({
  from,
  messageId,
  to,
  mailboxKey,
  params,
  extensions = [],
  ttlMs,
  traceparent
}: SendToSeal): Parameters<OutgoingObjects['seal']>[0] {
  const { configuration: _, ...carried } = params
  const activated = contractUriIn(extensions)
  const textWith = (trace: string | undefined) =>
    utf8(
      canonicalJson(
        { method: 'SendMessage', params: carried, ...sealedParameters(activated === undefined ? [] : [activated], trace) },
        ENVELOPE_DEPTH_MAX
      )
    )
  return {
    from,
    audience: to,
    mailboxKey,
    messageId: messageId ?? messageIdOf(params),
    purpose: PURPOSE_A2A_MESSAGE,
    plaintext: textWith(traceparent),
    ...(traceparent === undefined ? {} : { content: textWith(undefined) }),
    ...(ttlMs === undefined ? {} : { ttlMs })
  }
}

/** What a message of ours says it uses is what we activate with it. */
export function extensionsOf(message: Json | undefined): string[] {
  const extensions = typeof message === 'object' && message !== null && !Array.isArray(message) ? message.extensions : undefined
  return Array.isArray(extensions) ? extensions.filter((uri): uri is string => typeof uri === 'string') : []
}

function messageIdOf(params: JsonObject): string {
  return (params.message as JsonObject).messageId as string
}

/** Keeps a request body that is no message of A2A, for a processor that may come to understand it (OD-23, OD-38). */
export type KeepOpaque = (input: {
  principal: VerifiedPrincipal
  to: LocalAgent
  body: Uint8Array
  retryAfterSec: number | undefined
}) => Promise<Refusal>

/**
 * The queue as the draft's author has it: what a verified caller posts to a sleeping agent is kept as it came, each post as a record of its own, since it has no
 * name by which a repetition could be told.
 */
export function createKeepOpaque({ queue, random }: { queue: Pick<AsleepQueue, 'enqueue'>; random: Random }): KeepOpaque {
  return async ({ principal, to, body, retryAfterSec }) => {
    if (!keepsMessages(to.reachability)) return { reason: 'asleep', queued: false, retryAfterSec }
    try {
      const opaqueId = toHex(random.bytes(OPAQUE_ID_BYTES))
      const answer = await queue.enqueue({ audience: to.eidHex, principal: principal.id, object: body, kind: 'opaque', opaqueId })
      return answer.status === 'queued' ? { reason: 'asleep', queued: true, retryAfterSec } : refusalOfAnswer(answer)
    } catch (err) {
      if (err instanceof RookeryError && err.kind === 'storage') return { reason: 'store-failed' }
      throw err
    }
  }
}

/**
 * Seals for a sleeping agent of this node and puts the object into its queue, where it keeps one; `queued: true` only after the synced write (OD-14, OD-22).
 * One of our agents signs as itself. For the holder of a grant the sleeping agent signs to itself, since that holder has no key here, and the principal that is
 * stored with the record tells who it was; its message ids are its own.
 */
export function createKeepAsleep({
  outgoing,
  queue,
  tracer = noTracer
}: {
  outgoing: Pick<OutgoingObjects, 'sealInto'>
  queue: Pick<AsleepQueue, 'enqueue'>
  tracer?: Tracer
}): KeepAsleep {
  return async ({ principal, to, params, extensions, retryAfterSec }) => {
    if (!keepsMessages(to.reachability)) return { reason: 'asleep', queued: false, retryAfterSec }
    try {
      const { mailboxKey } = to
      const signed =
        principal.owner === undefined ? { from: to, messageId: `${principal.id} ${messageIdOf(params)}` } : { from: principal.owner }
      const sealing = sealingOf({ ...signed, to: to.eid, mailboxKey, params, extensions, traceparent: tracer.current() })
      const answer = await outgoing.sealInto(sealing, async ({ object }, alongside, facts) => {
        const sealed = facts === undefined ? {} : { sealed: facts }
        const value = await queue.enqueue({ audience: to.eidHex, principal: principal.id, object, alongside, ...sealed })
        return { value, kept: value.status === 'queued' && !value.again }
      })
      return answer.status === 'queued' ? { reason: 'asleep', queued: true, retryAfterSec, again: answer.again } : refusalOfAnswer(answer)
    } catch (err) {
      if (err instanceof RookeryError && err.kind === 'storage') return { reason: 'store-failed' }
      throw err
    }
  }
}
