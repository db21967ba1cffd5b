import { locatorKey } from '../../protocol/discovery/dht-key.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import type { Random } from '../../src/platform/random.ts'
import { drawDistinct } from '../engine/draw.ts'
import { placeOfNode } from '../engine/node-place.ts'
import { derivedRandom } from '../engine/seeds.ts'
import { LinkModel } from '../net/link-model.ts'
import type { Definition } from '../scenario/definition.ts'
import type { PlannedNode } from '../scenario/events.ts'
import { type LookupResult, type LookupWorld, lookUp } from './lookup.ts'
import { ModelNode } from './model-node.ts'
import type { FastRandom } from './random.ts'
import type { Places, RoutingTable } from './routing-table.ts'

/** As the simulator's profile of the product (`engine/boot-node.ts`). */
export const MODEL_K = 8
const MODEL_ALPHA = 3
/** A request or an answer of discovery: what most of them come to */
const RPC_BYTES = 600
/** Nodes that a new one knows of */
const BOOTSTRAP_THROUGH = 3
/** kad-dht looks up random places behind each length of common prefix that its table has, to fifteen; here one of the first. */
const REFRESH_PREFIXES_MAX = 6

/** All modelled nodes, the links between them, and Kademlia over both. */
export class ModelNetwork implements LookupWorld {
  readonly nodes: ModelNode[]
  readonly places: Places
  readonly k = MODEL_K
  readonly alpha = MODEL_ALPHA
  readonly link: LinkModel
  readonly #random: FastRandom
  readonly #bootstrap: Random
  readonly #seed: number
  rpcs = 0
  /** messages and bytes that each node sent */
  readonly sentMessages: Uint32Array
  readonly sentBytes: Float64Array

  constructor(planned: readonly PlannedNode[], network: Definition['network'], seed: number, random: FastRandom) {
    this.#random = random
    this.#seed = seed
    this.#bootstrap = derivedRandom(seed, 'bootstrap')
    this.sentMessages = new Uint32Array(planned.length)
    this.sentBytes = new Float64Array(planned.length)
    this.link = new LinkModel(planned, network, random)
    this.places = { hi: new Uint32Array(planned.length), lo: new Uint32Array(planned.length) }
    this.nodes = planned.map((one) => new ModelNode(one, this.places, MODEL_K, seed))
    for (const { index } of planned) {
      const { hi, lo } = placeOfKey(placeOfNode(seed, index))
      this.places.hi[index] = hi
      this.places.lo[index] = lo
    }
  }

  node(index: number): ModelNode {
    const node = this.nodes[index]
    if (node === undefined) throw new TypeError(`there is no node ${index}`)
    return node
  }

  table(node: number): RoutingTable {
    return this.node(node).table
  }

  isUp(node: number): boolean {
    return this.node(node).isUp
  }

  roundTripMs(from: number, to: number): number | undefined {
    if (from === to) return 0
    this.#count(from)
    if (!this.link.mayDial(from, to)) return undefined
    this.#count(to)
    return this.link.delayMs(from, to, RPC_BYTES) + this.link.delayMs(to, from, RPC_BYTES)
  }

  #count(node: number): void {
    this.sentMessages[node] = (this.sentMessages[node] as number) + 1
    this.sentBytes[node] = (this.sentBytes[node] as number) + RPC_BYTES
  }

  met(a: number, b: number): void {
    this.node(a).table.add(b)
    this.node(b).table.add(a)
  }

  lookUp(from: number, place: { hi: number; lo: number }): LookupResult {
    const result = lookUp(this, from, place.hi, place.lo)
    this.rpcs += result.rpcs
    return result
  }

  /** A node starts: it meets three of those that run, the same as in the real engine, and looks itself up. */
  join(index: number, upSoFar: readonly number[]): void {
    this.#joinThrough(index, drawDistinct(this.#bootstrap, upSoFar, BOOTSTRAP_THROUGH))
  }

  /** The same for one that was down, through those that are up now. */
  joinAgain(index: number, all: readonly number[]): void {
    const up = all.filter((other) => other !== index && this.isUp(other))
    this.#joinThrough(index, drawDistinct(derivedRandom(this.#seed, 'bootstrap-again', index), up, BOOTSTRAP_THROUGH))
  }

  #joinThrough(index: number, through: readonly number[]): void {
    this.node(index).isUp = true
    for (const other of through) this.met(index, other)
    this.lookUp(index, this.placeOf(index))
  }

  /** The k nearest to a place as the product names them: those that a look-up found, and `from` itself where it is among them, after no hop. */
  nearest(from: number, place: { hi: number; lo: number }): LookupResult {
    const found = this.lookUp(from, place)
    const isFarther = (one: number) => {
      const hi = ((this.places.hi[one] as number) ^ place.hi) >>> 0
      const own = ((this.places.hi[from] as number) ^ place.hi) >>> 0
      return (
        hi > own || (hi === own && ((this.places.lo[one] as number) ^ place.lo) >>> 0 > ((this.places.lo[from] as number) ^ place.lo) >>> 0)
      )
    }
    const at = found.nodes.findIndex(isFarther)
    const own = at === -1 ? found.nodes.length : at
    return {
      ...found,
      nodes: found.nodes.toSpliced(own, 0, from).slice(0, this.k),
      hops: found.hops.toSpliced(own, 0, 0).slice(0, this.k)
    }
  }

  /** What keeps a table filled: the look-up of oneself, and of a random place behind one of the lengths of prefix, each in its turn. */
  refresh(index: number): void {
    const own = this.placeOf(index)
    this.lookUp(index, own)
    const bits = this.#random.below(1 + Math.min(REFRESH_PREFIXES_MAX, this.#longestPrefix(index)))
    const flipped = (own.hi ^ (0x80000000 >>> bits)) >>> 0
    const tail = this.#random.below(2 ** (31 - bits))
    this.lookUp(index, { hi: ((flipped & ~(2 ** (31 - bits) - 1)) | tail) >>> 0, lo: this.#random.below(2 ** 32) })
  }

  drawnPlace(): { hi: number; lo: number } {
    return { hi: this.#random.below(2 ** 32), lo: this.#random.below(2 ** 32) }
  }

  placeOf(index: number): { hi: number; lo: number } {
    return { hi: this.places.hi[index] as number, lo: this.places.lo[index] as number }
  }

  #longestPrefix(index: number): number {
    const own = this.places.hi[index] as number
    let longest = 0
    for (const peer of this.node(index).table.peers) longest = Math.max(longest, Math.clz32(((this.places.hi[peer] as number) ^ own) >>> 0))
    return longest
  }
}

/** Where a key lies: the first 64 bits of its place. */
export function placeOfKey(place: Uint8Array): { hi: number; lo: number } {
  const view = new DataView(place.buffer, place.byteOffset)
  return { hi: view.getUint32(0), lo: view.getUint32(4) }
}

/** Where an agent's locator lies. */
export function locatorPlace(eid: Eid): { hi: number; lo: number } {
  return placeOfKey(nodeCrypto.sha256(locatorKey(eid)))
}
