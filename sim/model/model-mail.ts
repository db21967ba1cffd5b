import { judgeBounds, QUEUE_BOUNDS_DEFAULT } from '../../protocol/delivery/bounds.ts'
import { nextOpeningMs, reachabilityAt, wakeWindowOf } from '../../protocol/delivery/reachability.ts'
import type { Fact } from '../run/facts.ts'
import type { Bug } from './bugs.ts'
import { cheapCrypto } from './cheap-crypto.ts'
import type { ModelNode } from './model-node.ts'

const OBJECT_BYTES_MAX = QUEUE_BOUNDS_DEFAULT.bytesMax
/** what a governed object adds to a message */
const ENVELOPE_BYTES = 400
/** every how many messages the bug `forgets-acked` forgets one */
const FORGETS_EVERY = 5

/** Delivery in the model: whether a node takes a message now, keeps it, and hands it over when it wakes. */
export class ModelMail {
  readonly #epochMs: number
  readonly #bug: Bug | undefined
  readonly #tell: (fact: Fact) => void
  #deposits = 0

  constructor({ epochMs, bug, tell }: { epochMs: number; bug: Bug | undefined; tell: (fact: Fact) => void }) {
    this.#epochMs = epochMs
    this.#bug = bug
    this.#tell = tell
  }

  /** Sets the window of a node that wakes by the hour: where the protocol puts it, or for all at the same second. */
  open(node: ModelNode): void {
    const { wake, reachability } = node.planned.group
    if (reachability !== 'hourly_wake') return
    const periodSec = Math.max(60, Math.round((wake?.period ?? 3_600_000) / 1_000))
    const openSec = Math.max(1, Math.round((wake?.open ?? 300_000) / 1_000))
    const spread = wakeWindowOf(cheapCrypto, node.eid, { periodSec, openSec: Math.min(openSec, periodSec) })
    node.window = wake?.jitter === false ? { ...spread, offsetSec: 0 } : spread
    node.reachability = { mode: 'hourly_wake', window: node.window }
  }

  /** When it wakes next by itself, in time of the run. */
  nextWakeMs(node: ModelNode, nowMs: number): number | undefined {
    return node.window === undefined ? undefined : nextOpeningMs(node.window, this.#epochMs + nowMs) - this.#epochMs
  }

  /** The second of its period, for the picture of the wake storm. */
  secondOfPeriod(node: ModelNode, nowMs: number): number {
    const period = node.window?.periodSec ?? 3_600
    return Math.floor((this.#epochMs + nowMs) / 1_000) % period
  }

  /** A message arrives. @returns what the sender is told */
  deposit(
    node: ModelNode,
    message: { id: number; from: number; bytes: number },
    nowMs: number
  ): 'delivered' | 'queued' | 'asleep' | 'full' {
    const state = reachabilityAt(node.reachability, { nowMs: this.#epochMs + nowMs, attached: true })
    const { id, from } = message
    if (state.state === 'accepts') {
      this.#notify(node, id)
      this.#tell({ fact: 'acked', id, node: from, to: node.index })
      return 'delivered'
    }
    if (!state.queues) return 'asleep'
    const bytes = message.bytes + ENVELOPE_BYTES
    const load = {
      messages: node.queue.length,
      bytes: node.queue.reduce((sum, one) => sum + one.bytes, 0),
      peerMessages: node.queue.filter((one) => one.from === from).length
    }
    const verdict = judgeBounds(load, QUEUE_BOUNDS_DEFAULT, { bytes, objectBytesMax: OBJECT_BYTES_MAX })
    if (verdict !== 'fits' && this.#bug !== 'queue-without-bound') return 'full'
    const isForgotten = this.#bug === 'forgets-acked' && ++this.#deposits % FORGETS_EVERY === 0
    if (!isForgotten) node.queue.push({ id, from, bytes, expiresAtMs: nowMs + QUEUE_BOUNDS_DEFAULT.ttlMaxMs })
    this.#tell({ fact: 'queue', node: node.index, length: node.queue.length, bound: QUEUE_BOUNDS_DEFAULT.messagesMax })
    const ofPeer = node.queue.filter((one) => one.from === from).length
    this.#tell({ fact: 'queue', node: node.index, length: ofPeer, bound: QUEUE_BOUNDS_DEFAULT.messagesPerPeerMax })
    this.#tell({ fact: 'acked', id, node: from, to: node.index })
    return 'queued'
  }

  /** Hands over what waits. @returns how many */
  drain(node: ModelNode, nowMs: number): number {
    const due = this.#bug === 'hands-over-twice' ? [...node.queue] : node.queue.splice(0)
    let count = 0
    for (const { id, expiresAtMs } of due) {
      if (expiresAtMs <= nowMs) continue
      this.#notify(node, id)
      count++
    }
    return count
  }

  #notify(node: ModelNode, id: number): void {
    if (node.notified.has(id) && this.#bug !== 'hands-over-twice') return
    node.notified.add(id)
    this.#tell({ fact: 'notified', id, node: node.index })
  }
}
