import type { Inbound, Session } from './session.ts'

interface Waiting {
  item: Inbound
  handled: () => void
}

/** Items of a channel that nobody took yet; bounded by the channel's window, which moves only with what was handled. */
interface Channel {
  readonly waiting: Waiting[]
  wake: (() => void) | undefined
}

const channels = new WeakMap<Session, Map<number, Channel>>()

/**
 * A channel's inbound items, one at a time and in order. An item counts as handled when the next is asked for or the loop is left: a durable one is
 * acknowledged then, and the peer's window moves, so a slow loop holds back who sends. Ends when the session is over. A loop that is left
 * keeps what follows for the next one; two loops over one channel share its items.
 */
export async function* channelItems(session: Session, number: number): AsyncGenerator<Inbound, void, undefined> {
  const channel = serve(session, number)
  let over = false
  void session.closed.then(() => {
    over = true
    channel.wake?.()
  })
  for (;;) {
    const next = channel.waiting.shift()
    if (next !== undefined) {
      try {
        yield next.item
      } finally {
        next.handled()
      }
    } else if (over) return
    else await arrival(channel)
  }
}

function serve(session: Session, number: number): Channel {
  const served = channels.get(session) ?? new Map<number, Channel>()
  channels.set(session, served)
  const held = served.get(number)
  if (held !== undefined) return held
  const channel: Channel = { waiting: [], wake: undefined }
  served.set(number, channel)
  session.onChannel(number, (item) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    channel.waiting.push({ item, handled: resolve })
    channel.wake?.()
    return promise
  })
  return channel
}

/** Wakes every loop that waits. */
async function arrival(channel: Channel): Promise<void> {
  const before = channel.wake
  const { promise, resolve } = Promise.withResolvers<void>()
  channel.wake = () => {
    before?.()
    channel.wake = undefined
    resolve()
  }
  await promise
}
