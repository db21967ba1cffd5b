import type { Socket } from 'node:dgram'
import makeMdns from 'multicast-dns'
import type { Logger } from '../platform/logger.ts'
import { isOnLink, type OwnAddress, ownAddresses } from './on-link.ts'

/** What local points are called on the link. */
export const LP_SERVICE = '_rookery-lp._udp.local'
const TXT_BYTES_MAX = 255
/** Routers drop what has no hop left. */
const TTL = 1

/** The link that this machine is on: records go to all of it, and to nobody else. */
export interface Link {
  announce(records: readonly Uint8Array[]): void
  /** Asks the others to announce. */
  ask(): void
  /** @param listener - told each record with the IP that it came from, and when somebody asks */
  listen(listener: { record(bytes: Uint8Array, from: string): void; asked(): void }): void
  close(): Promise<void>
}

export interface MdnsLinkInit {
  /** the IPv4 address of the interface; absent: all */
  interface?: string
  /** in place of a UDP socket of its own */
  socket?: Socket
  own?: () => readonly OwnAddress[]
}

/** Multicast DNS on IPv4: TXT records under {@link LP_SERVICE}, with a hop limit of one, from senders of this link alone. */
export function createMdnsLink({ logger }: { logger: Logger }, init: MdnsLinkInit = {}): Link {
  const own = init.own ?? ownAddresses
  const mdns = makeMdns({
    ttl: TTL,
    ...(init.interface === undefined ? {} : { interface: init.interface }),
    ...(init.socket === undefined ? {} : { socket: init.socket as never })
  })
  const log = logger.child('link')
  mdns.on('error', (error: Error) => log.warn({ error: error.message }, 'the local link cannot be used: UDP port 5353'))
  return {
    announce(records) {
      // one a packet: two would not fit
      for (const record of records) mdns.respond([{ name: LP_SERVICE, type: 'TXT', ttl: 120, data: pieces(record) }])
    },
    ask: () => mdns.query([{ name: LP_SERVICE, type: 'TXT' }]),
    listen(listener) {
      mdns.on('query', ({ questions }, from) => {
        if (isOnLink(from.address, own()) && questions?.some(({ name }) => name === LP_SERVICE) === true) listener.asked()
      })
      mdns.on('response', ({ answers }, from) => {
        if (!isOnLink(from.address, own())) return
        for (const answer of answers ?? []) {
          if (answer.type !== 'TXT' || answer.name !== LP_SERVICE) continue
          const parts = Array.isArray(answer.data) ? answer.data : [answer.data]
          if (parts.every((part) => part instanceof Uint8Array)) listener.record(new Uint8Array(Buffer.concat(parts)), from.address)
        }
      })
    },
    close: () => new Promise((resolve) => mdns.destroy(() => resolve()))
  }
}

function pieces(record: Uint8Array): Buffer[] {
  const out: Buffer[] = []
  for (let at = 0; at < record.length; at += TXT_BYTES_MAX) out.push(Buffer.from(record.subarray(at, at + TXT_BYTES_MAX)))
  return out
}
