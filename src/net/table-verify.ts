import type { Connection, PeerId } from '@libp2p/interface'

/** Who said who it is within this time needs no ping. */
const FRESH_MS = 10_000

/** kad-dht's routing table: what it asks of a peer before it takes it in, and how it tells of those that answered. */
export interface VerifyingTable {
  safeDispatchEvent(name: 'peer:ping', init: { detail: PeerId }): boolean
  readonly kb: {
    verify(contact: { peerId: PeerId }, options?: { signal?: AbortSignal }): Promise<boolean>
  }
}

export interface TableVerifyInit {
  /** open connections to the peer */
  connections(peer: PeerId): readonly Connection[]
  /** opens one where there is none */
  dial(peer: PeerId, options: { signal?: AbortSignal }): Promise<Connection>
  /** resolves once the peer has said who it is over this connection; undefined where it was not asked */
  identified(connection: Connection): Promise<unknown> | undefined
  nowMs(): number
}

/**
 * Takes a peer's word of who it is, over a connection that has just opened, as the sign of life that the table wants. kad-dht pings as well: a second
 * stream to each peer that has answered on a first one, and on a busy machine given up on sooner.
 */
export function verifyByIdentify(table: VerifyingTable, init: TableVerifyInit): void {
  const { kb } = table
  const ping = kb.verify.bind(kb)
  kb.verify = async (contact, options = {}) => {
    const { peerId } = contact
    const isFresh = ({ status, timeline }: Connection) => status === 'open' && init.nowMs() - timeline.open < FRESH_MS
    try {
      const open = init.connections(peerId)
      const connection = open.length === 0 ? await init.dial(peerId, options) : open.find(isFresh)
      const identified = connection === undefined ? undefined : init.identified(connection)
      if (identified === undefined) return await ping(contact, options)
      await within(identified, options.signal)
    } catch {
      return false // a peer that cannot be reached, or does not say who it is, has no place
    }
    table.safeDispatchEvent('peer:ping', { detail: peerId })
    return true
  }
}

async function within(work: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) {
    await work
    return
  }
  signal.throwIfAborted()
  let give: () => void = () => {}
  const given = new Promise<never>((_, reject) => {
    give = () => reject(signal.reason)
    signal.addEventListener('abort', give, { once: true })
  })
  await Promise.race([work, given]).finally(() => signal.removeEventListener('abort', give))
}
