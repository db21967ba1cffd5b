import type { PeerId } from '@libp2p/interface'
import { peerIdFromMultihash } from '@libp2p/peer-id'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import * as Digest from 'multiformats/hashes/digest'

/** Different values of one kind that are remembered; the oldest goes first. */
const SHARED_MAX = 8_192
/** The longest multihash of a PeerId that is remembered: a SHA-256 or an embedded key. */
const MULTIHASH_BYTES_MAX = 64
const ADDR_BYTES_MAX = 512

/**
 * Values that are made from a name, and are the same for whoever makes them: each is made once and then handed out again. The same few hundred peers and
 * addresses come in every answer of a network, and parsing them anew costs more than all the rest of an answer. They must not be changed by who gets them.
 */
export class Shared<T> {
  readonly #values = new Map<string, T>()
  readonly #max: number

  constructor(max = SHARED_MAX) {
    this.#max = max
  }

  peek(name: string): T | undefined {
    return this.#values.get(name)
  }

  get(name: string, make: () => T): T {
    const known = this.#values.get(name)
    if (known !== undefined) return known
    const made = make()
    this.#values.set(name, made)
    if (this.#values.size > this.#max) this.#values.delete(this.#values.keys().next().value as string)
    return made
  }
}

const peers = new Shared<PeerId>()
const addrs = new Shared<Multiaddr>()
const addrsByBytes = new Shared<Multiaddr>()
const lists = new Shared<string[]>(1_024)

/** A short name for bytes, one character each. */
export function nameOf(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes)
}

/** The name of a PeerId in maps: its multihash, which costs less than its text. */
export function peerName(id: PeerId): string {
  const { bytes } = id.toMultihash()
  return bytes.length > MULTIHASH_BYTES_MAX ? id.toString() : nameOf(bytes)
}

/** @throws Error where the bytes are no multihash of a PeerId */
export function sharedPeerId(multihash: Uint8Array): PeerId {
  if (multihash.length > MULTIHASH_BYTES_MAX) throw new Error('the multihash of a PeerId has at most 64 bytes')
  // the bytes may be a view of a whole message
  return peers.get(nameOf(multihash), () => peerIdFromMultihash(Digest.decode(multihash.slice())))
}

/** The PeerId that everyone holds in place of this one. */
export function samePeerId(id: PeerId): PeerId {
  const { bytes } = id.toMultihash()
  return bytes.length > MULTIHASH_BYTES_MAX || id.publicKey === undefined ? id : sharedPeerId(bytes)
}

/** @throws Error where the text is no multiaddr */
export function sharedAddr(text: string): Multiaddr {
  return text.length > ADDR_BYTES_MAX ? multiaddr(text) : addrs.get(text, () => multiaddr(text))
}

/** @throws Error where the bytes are no multiaddr */
export function sharedAddrOf(bytes: Uint8Array): Multiaddr {
  if (bytes.length > ADDR_BYTES_MAX) return multiaddr(bytes.slice())
  return addrsByBytes.get(nameOf(bytes), () => sharedAddr(multiaddr(bytes.slice()).toString()))
}

/** Texts that many peers have in common, such as the protocols that they speak. */
export function sharedList(texts: readonly string[]): string[] {
  return lists.get(texts.join('\0'), () => [...texts])
}
