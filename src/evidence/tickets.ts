import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { buildRecord, decodeRecord } from '../../protocol/records/envelope.ts'
import { POM_TTL_SEC, type PomRecord, pomKey, pomType } from '../../protocol/records/pom.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import { type Random, randomFraction } from '../platform/random.ts'
import { type Refreshed, Refresher } from '../spaces/refresher.ts'
import type { RegistryClient } from '../spaces/registry-client.ts'
import { bytesCodec, type Store, type Table } from '../store/store.ts'

/** Tickets of our own that are kept at the registrars; evidence beyond them is acted upon here and not published. */
export const TICKETS_MAX = 1_000
/** Many nodes see the same contradiction at once: each waits up to this long, and publishes only what nobody has by then. */
export const PUBLISH_SPREAD_MS = 30_000

interface Components {
  store: Store
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
  /** the agent of ours that signed, while this node has it */
  agent: (eidHex: EidHex) => LocalAgent | undefined
}

/** The proofs that this node publishes, one for each target: on disk first, then put to the registrars and kept alive there. */
export class Tickets {
  readonly #c: Components
  readonly #table: Table<Uint8Array>
  readonly #refresher: Refresher
  readonly #own = new Map<EidHex, { record: PomRecord; published: boolean }>()
  readonly #waiting = new Map<EidHex, () => void>()
  #registry: RegistryClient | undefined
  #stopped = false

  private constructor(components: Components) {
    this.#c = components
    this.#table = components.store.table('evidence-tickets', bytesCodec)
    this.#refresher = new Refresher(components)
  }

  static async open(components: Components): Promise<Tickets> {
    const tickets = new Tickets(components)
    for await (const [name, bytes] of tickets.#table.entries()) {
      tickets.#own.set(name as EidHex, { record: decodeRecord(pomType, bytes), published: false })
    }
    return tickets
  }

  begin(registry: RegistryClient): void {
    this.#registry = registry
    for (const name of this.#own.keys()) this.#keep(name)
  }

  status(target: EidHex): 'none' | 'waiting' | 'published' {
    const own = this.#own.get(target)
    return own === undefined ? 'none' : own.published ? 'published' : 'waiting'
  }

  /**
   * Stores the ticket, then publishes it.
   * @param when - `unless-known`: after a while, and only if the registrars hold no proof against the target by then
   * @returns `full` at {@link TICKETS_MAX}
   */
  async add(record: PomRecord, when: 'now' | 'unless-known', isKnown: () => Promise<boolean>): Promise<'kept' | 'full'> {
    const name = eidHex(record.payload.target)
    if (this.#own.has(name)) return 'kept'
    if (this.#own.size >= TICKETS_MAX) return 'full'
    this.#own.set(name, { record, published: false })
    try {
      await this.#c.store.commit([this.#table.put(name, record.bytes)])
    } catch (error) {
      this.#own.delete(name)
      throw error
    }
    if (this.#stopped || this.#registry === undefined) return 'kept' // published at the next start
    if (when === 'now') this.#keep(name)
    else this.#later(name, isKnown)
    return 'kept'
  }

  #later(name: EidHex, isKnown: () => Promise<boolean>): void {
    const cancel = this.#c.clock.after(PUBLISH_SPREAD_MS * randomFraction(this.#c.random), () => {
      this.#waiting.delete(name)
      isKnown()
        .catch(() => false)
        .then(async (known) => {
          if (known) await this.#forget(name)
          else this.#keep(name)
        })
        .catch((error: unknown) => {
          if (!this.#stopped) this.#c.logger.warn({ err: error }, 'a ticket could not be put away')
        })
    })
    this.#waiting.set(name, cancel)
  }

  #keep(name: EidHex): void {
    const own = this.#own.get(name)
    if (own === undefined || this.#stopped) return
    this.#refresher.keep(name, {
      ttlMs: POM_TTL_SEC * 1_000,
      signedAtMs: own.record.payload.ts * 1_000,
      coverage: 'none',
      sign: (signal) => this.#refresh(name, 'sign', signal),
      put: (signal) => this.#refresh(name, 'put', signal)
    })
  }

  async #refresh(name: EidHex, verb: 'sign' | 'put', signal: AbortSignal): Promise<Refreshed> {
    const own = this.#own.get(name)
    if (own === undefined || this.#registry === undefined) return { signedAtMs: 0, coverage: 'full', next: 'forget' }
    let { record } = own
    if (verb === 'sign') {
      const agent = this.#c.agent(eidHex(record.payload.accuser))
      if (agent === undefined) {
        await this.#forget(name)
        return { signedAtMs: 0, coverage: 'full', next: 'forget' }
      }
      const ts = Math.floor(this.#c.clock.nowMs() / 1_000)
      record = buildRecord(this.#c.crypto, pomType, { ...record.payload, ts, exp: ts + POM_TTL_SEC }, agent.signer)
      await this.#c.store.commit([this.#table.put(name, record.bytes)])
      this.#own.set(name, { ...own, record })
    }
    const key = pomKey(this.#c.crypto, record.payload.target)
    const { registrars, stored } = await this.#registry.put({ set: 'poms', key, record: record.bytes }, { signal })
    if (stored > 0) this.#own.set(name, { record, published: true })
    return { signedAtMs: record.payload.ts * 1_000, coverage: registrars > 1 && stored === registrars ? 'full' : 'partial' }
  }

  async #forget(name: EidHex): Promise<void> {
    this.#own.delete(name)
    await this.#c.store.commit([this.#table.del(name)])
  }

  /** Another peer arrived: what is not everywhere yet gets its chance. */
  peersArrived(): void {
    this.#refresher.peersArrived()
  }

  async idle(): Promise<void> {
    await this.#refresher.idle()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    for (const cancel of this.#waiting.values()) cancel()
    await this.#refresher.stop()
  }
}
