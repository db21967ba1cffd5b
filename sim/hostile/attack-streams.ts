import { concat } from '../../protocol/bytes.ts'
import { REGISTRY_PROTOCOL } from '../../protocol/discovery/registry-messages.ts'
import { DISCOVERY_PROTOCOL } from '../../protocol/discovery/request.ts'
import type { ByteStream } from '../../src/net/byte-stream.ts'
import type { PeerAddress } from '../../src/net/host.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { drawDistinct } from '../engine/draw.ts'
import { eachOf } from '../engine/each-of.ts'
import type { World } from './world.ts'

const PSS_PROTOCOL = '/rookery/pss/1.0.0'
const REACH_PROTOCOL = '/rookery/reach/1.0.0'
const KAD_PROTOCOL = '/rookery/kad/1.0.0'
const PROTOCOLS = [REGISTRY_PROTOCOL, DISCOVERY_PROTOCOL, PSS_PROTOCOL, REACH_PROTOCOL, KAD_PROTOCOL]
/** Every exchange that a stranger begins is over within 10 s (protocol/README.md §4, §6); a machine with no time to spare gets as long again. */
const OVER_MS = 25_000
const OVERSIZE_PEERS = 2
const RSS_GROWTH_MAX = 256 * 1024 * 1024

/** Streams that say one byte and no more, and frames that claim to be huge. */
export class HeldStreams {
  readonly #world: World
  readonly #target: SimNode
  readonly #slow: ByteStream[] = []
  #opened = 0
  #over = 0
  #beganMs = 0
  #grown = 0
  #oversize = Promise.resolve({ sent: 0, refused: 0 })

  constructor(world: World) {
    this.#world = world
    this.#target = drawDistinct(world.random, world.honest.slice(1), 1)[0] as SimNode
  }

  /** Opens them; they hang while other attacks run. */
  async begin(each: number): Promise<void> {
    this.#beganMs = systemClock.monotonicMs()
    const rssBefore = process.memoryUsage.rss()
    const at = { peer: this.#target.node.peer, addrs: this.#target.node.host.addresses() }
    this.#oversize = this.#sendOversize(at)
    await eachOf(this.#world.hostile, 4, async ({ node }) => {
      for (const protocol of PROTOCOLS) {
        for (let i = 0; i < each; i++) {
          const stream = await node.host.openStream(at, protocol).catch(() => undefined)
          if (stream === undefined) continue
          this.#opened++
          this.#slow.push(stream)
          void stream.closed.finally(() => this.#over++)
          void stream.read(1).catch(() => stream.reset(new Error('the other side is done')))
          await stream.write(Uint8Array.of(0)).catch(() => {})
        }
      }
    })
    this.#grown = Math.max(0, process.memoryUsage.rss() - rssBefore)
  }

  /** Frames that claim 4 GiB and bring one MiB. */
  async #sendOversize(at: PeerAddress): Promise<{ sent: number; refused: number }> {
    const huge = concat([Uint8Array.of(0xff, 0xff, 0xff, 0xff), new Uint8Array(2 ** 20)])
    const counts = { sent: 0, refused: 0 }
    const orders = this.#world.hostile.slice(0, OVERSIZE_PEERS).flatMap(({ node }) => PROTOCOLS.map((protocol) => ({ node, protocol })))
    await eachOf(orders, orders.length, async ({ node, protocol }) => {
      const stream = await node.host.openStream(at, protocol).catch(() => undefined)
      if (stream === undefined) return
      counts.sent++
      const patience = AbortSignal.timeout(OVER_MS)
      await stream.write(huge, { signal: patience }).catch(() => {})
      // an answer says no, such as CLOSE, or the stream is dropped
      await stream.read(1, { signal: patience }).catch(() => {})
      if (!patience.aborted) counts.refused++
      stream.reset(new Error('done'))
    })
    return counts
  }

  /** What became of them. */
  async end(): Promise<void> {
    const attack = 'oversize and slow-loris peers'
    const world = this.#world
    const { node } = this.#target
    const at = { peer: node.peer, addrs: node.host.addresses() }
    const { sent, refused } = await this.#oversize
    while (this.#over < this.#opened && systemClock.monotonicMs() - this.#beganMs < OVER_MS) {
      await systemClock.sleep(100, { signal: world.signal })
    }
    world.check(attack, 'slow streams opened', this.#opened, 'at least', 1)
    world.check(attack, 'slow streams still open when their time is over', this.#opened - this.#over, 'exactly', 0)
    world.check(attack, 'oversize frames that were refused, of those sent', refused / Math.max(1, sent), 'exactly', 1)
    const answers = await world.honest[0]?.node.host.openStream(at, REGISTRY_PROTOCOL)
    world.check(attack, 'streams of an honest node that the target still takes', answers === undefined ? 0 : 1, 'exactly', 1)
    await answers?.close()
    world.check(attack, 'MiB that the process grew by as they were opened', this.#grown / 2 ** 20, 'at most', RSS_GROWTH_MAX / 2 ** 20)
    for (const stream of this.#slow) stream.reset(new Error('done'))
  }
}
