import { fromHex, toHex } from '../../protocol/bytes.ts'
import { outboxStateText } from '../../protocol/delivery/outbox-state.ts'
import { type EidHex, eidToDid, eid as toEid } from '../../protocol/identity/eid.ts'
import type { OutboxEntry } from '../delivery/outbox.ts'
import { RookeryError } from '../errors.ts'
import { homeOf } from '../identity/agent.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { ControlHandlers } from './control-server.ts'
import type { OutboxResults, OutboxView } from './outbox-methods.ts'

/** A watcher that does not read is shown no more than this at once; what it misses is counted. */
const UNREAD_MAX = 1_000

/** What became of messages that our agents undertook to deliver. */
export function outboxHandlers(node: RookeryNode): Pick<ControlHandlers, keyof OutboxResults> {
  const { mail } = node
  const { outbox } = mail
  const view = (entry: OutboxEntry) => outboxView(node, entry)
  const of = (agent: string | undefined) => {
    const home = agent === undefined ? undefined : homeOf(node.agents.get(agent))
    return (entry: OutboxEntry) => home === undefined || entry.from === home
  }
  return {
    async 'outbox.list'({ agent, open }) {
      const { waiting, bytes, damaged, bounds } = outbox.usage()
      return {
        messages: outbox
          .list({ isOpen: open === true })
          .filter(of(agent))
          .map(view),
        waiting,
        bytes,
        damaged,
        bounds
      }
    },
    async 'outbox.show'({ id }) {
      const entry = found(node, id)
      const { receipts, confirmation } = await outbox.evidence(entry)
      return {
        ...view(entry),
        receipts: receipts.map(({ keeper, receipt }) => ({ keeper: didOf(keeper), receiptHex: toHex(receipt) })),
        ...(confirmation === undefined ? {} : { confirmationHex: toHex(confirmation) })
      }
    },
    async 'outbox.retry'({ id, all }, { progress }) {
      if ((id === undefined) === (all === undefined)) {
        throw new RookeryError('PARAMS_INVALID', 'outbox.retry: either one message or all', {
          kind: 'usage',
          field: 'id',
          remedy: 'name a message, or give --all'
        })
      }
      const wanted = id === undefined ? outbox.list({ isOpen: true }) : [found(node, id)]
      progress(`trying ${wanted.length}`)
      await Promise.all(wanted.map((entry) => mail.retry(entry)))
      return { messages: wanted.map((entry) => view(outbox.get(entry.id) ?? entry)) }
    },
    async 'outbox.drop'({ id }) {
      const entry = found(node, id)
      await outbox.drop(entry.id)
      return { dropped: entry.id }
    },
    async 'outbox.watch'({ agent }, { signal, emit }) {
      const ends = AbortSignal.any([signal, node.signal])
      const isMeant = of(agent)
      let events = 0
      let unread = 0
      let missed = 0
      const off = outbox.onEvent(({ entry, before }) => {
        if (!isMeant(entry)) return
        if (unread >= UNREAD_MAX) return void missed++
        events++
        unread++
        emit({ ...view(entry), ...(before === undefined ? {} : { before: outboxStateText(before) }) }).then(
          () => unread--,
          () => unread-- // the watcher is gone, which its signal says too
        )
      })
      try {
        await new Promise<void>((resolve) => {
          if (ends.aborted) resolve()
          else ends.addEventListener('abort', () => resolve(), { once: true })
        })
      } finally {
        off()
      }
      return { events, missed }
    }
  }
}

export function outboxView(node: RookeryNode, entry: OutboxEntry): OutboxView {
  const { id, messageId, from, to, bytes, state, acceptedAtMs, changedAtMs, expiresAtMs, keepers, task } = entry
  return {
    id,
    messageId,
    agent: node.agents.list().find((one) => homeOf(one) === from)?.name ?? from,
    to: didOf(to),
    bytes,
    state: outboxStateText(state),
    acceptedAtMs,
    changedAtMs,
    expiresAtMs,
    keepers: keepers.map(didOf),
    ...(task === undefined ? {} : { task }),
    ...node.mail.progress(entry)
  }
}

function didOf(hex: EidHex): string {
  return eidToDid(toEid(fromHex(hex)))
}

/** @throws RookeryError `OUTBOX_UNKNOWN`, `OUTBOX_AMBIGUOUS` */
function found(node: RookeryNode, prefix: string): OutboxEntry {
  const matches = node.mail.outbox.list().filter(({ id }) => id.startsWith(prefix))
  if (matches.length === 1) return matches[0] as OutboxEntry
  const unknown = matches.length === 0
  throw new RookeryError(
    unknown ? 'OUTBOX_UNKNOWN' : 'OUTBOX_AMBIGUOUS',
    unknown ? `no message of the outbox has the id ${prefix}` : `${matches.length} messages of the outbox begin with ${prefix}`,
    {
      kind: unknown ? 'notFound' : 'usage',
      field: 'id',
      value: prefix,
      remedy: unknown ? 'list them with `rookery outbox list`' : 'give more digits of the one that is meant'
    }
  )
}
