import { equals } from '../../protocol/bytes.ts'
import { decodeAnswer, verifyAnswer, verifySpaceAnswer } from '../../protocol/discovery/answer.ts'
import type { Criteria } from '../../protocol/discovery/criteria.ts'
import { meetsCriteria } from '../../protocol/discovery/criteria.ts'
import { type DsId, shardKey } from '../../protocol/discovery/names.ts'
import { DELIVERIES, RELAY_MS_MAX, stemCandidates } from '../../protocol/discovery/relay.ts'
import { buildRequest, HOPS, withHops, withNonce } from '../../protocol/discovery/request.ts'
import { ITEMS_MAX, type Rejection } from '../../protocol/discovery/response.ts'
import { openItem } from '../../protocol/discovery/sealed-item.ts'
import { requestSeed, SOLVER_BITS_MAX, WORK_BITS_MIN, type WorkSeed } from '../../protocol/discovery/work.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { type Eid, type EidHex, eidHex, eidToDid } from '../../protocol/identity/eid.ts'
import { RookeryError } from '../errors.ts'
import { shuffled } from '../platform/shuffled.ts'
import { withDeadline } from '../spaces/deadline.ts'
import { tooHard, type WorkProgress } from '../work/work-solver.ts'
import type { DiscoveryComponents } from './components.ts'
import { sendOn } from './send-on.ts'

/** Requests that one search makes when it is asked for more work than it did. */
const ATTEMPTS_MAX = 3
const STEM_TRIES_MAX = 3
/** Answers are waited for a little longer than any hop may take. */
const ANSWERS_MS = RELAY_MS_MAX + 2_000
/** Items opened that were none for us, before the peer that passes them on is not listened to any longer. */
const FAULTY_ITEMS_MAX = 32
/** Items read of one request: as many as three registrars may send, each over relays of its own. */
const ITEMS_READ_MAX = DELIVERIES * ITEMS_MAX
/** Parts of a space that one search asks in turn until somebody is found there. */
const PARTS_ASKED_MAX = 4
/** Different numbers of parts that are gone by where several curators announce the space: those that most registrars name. */
const PART_NUMBERS_MAX = 2
/** Curators whose announcements are counted */
const CURATORS_MAX = 64
export const FAN_OUT_DEFAULT = 6

/** How a request travels: `stem`, over peers that are no registrars; `small`, over one that may be; `direct`, to registrars that see this node's PeerId. */
export type DiscoveryPath = 'stem' | 'small' | 'direct'

export interface SearchFor {
  /** a member-set key or a GP coordinate */
  readonly target: Uint8Array
  /** `found-out`: the target is a DS_ID, and registrars tell there whether the space has parts; `known`: the target is where to look */
  readonly parts: 'known' | 'found-out'
  readonly criteria: Criteria
  /** `records`: what registrars hold; `contact`: members themselves; `both` */
  readonly want: 'records' | 'contact' | 'both'
  /** 1 to 16 */
  readonly fanOut: number
  /** only members that follow this curator */
  readonly curator?: Eid
}

export interface FoundAnonymously {
  readonly did: string
  readonly eid: Eid
  /** `member`: the agent answered itself, signed for this request; `record`: a registrar handed its public record on */
  readonly kind: 'member' | 'record'
  readonly tags: readonly string[]
  readonly mode?: string
  /** whether its locator came along: a session needs no look-up that would show whom one found */
  readonly reachable: boolean
  readonly expiresAtMs?: number
}

export type DiscoveryEvent =
  | { kind: 'solving'; progress: WorkProgress }
  | { kind: 'sent'; path: DiscoveryPath; difficulty: number }
  /** registrars tell that the space has so many parts; one of them is asked next */
  | { kind: 'parts'; shards: number }
  /** a hop asks for more work: the search starts anew */
  | { kind: 'harder'; difficulty: number }
  | { kind: 'found'; found: FoundAnonymously }

export interface DiscoverOptions {
  signal?: AbortSignal
  onEvent?: (event: DiscoveryEvent) => void
}

/** One anonymous search, from the fresh key to the last answer (protocol/README.md §5). */
export class Search {
  readonly #c: DiscoveryComponents
  readonly #for: SearchFor
  readonly #options: DiscoverOptions
  /** what was told, by EID: a member's own answer is told even after its record */
  readonly #told = new Map<string, FoundAnonymously['kind']>()
  /** how many parts the space has by each of its curators, and how many items said so */
  readonly #parts = new Map<EidHex, { shards: number; told: number }>()
  readonly #queue: FoundAnonymously[] = []
  #wake: () => void = () => {}

  constructor(components: DiscoveryComponents, wanted: SearchFor, options: DiscoverOptions) {
    this.#c = components
    this.#for = wanted
    this.#options = options
  }

  /**
   * Answers as they come, each once, verified.
   * @throws RookeryError `WORK_TOO_HARD`, `DISCOVERY_REFUSED`, `NO_PEERS`, those of the solver; or the signal's reason
   */
  async *answers(): AsyncGenerator<FoundAnonymously, void, undefined> {
    const given = this.#options.signal
    const left = new AbortController()
    const signal = given === undefined ? left.signal : AbortSignal.any([given, left.signal])
    let done = false
    const running = this.#run(signal).finally(() => {
      done = true
      this.#wake()
    })
    running.catch(() => {})
    try {
      for (;;) {
        const found = this.#queue.shift()
        if (found !== undefined) yield found
        else if (done) break
        else await new Promise<void>((resolve) => (this.#wake = resolve))
      }
      await running
      given?.throwIfAborted()
    } finally {
      left.abort(new Error('nobody reads the answers'))
      await running.catch(() => {})
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { host } = this.#c
    if (host.dht.table().length === 0 && host.peers().length === 0) throw noPeers() // before any work is done
    let difficulty = await this.#request(this.#for.target, WORK_BITS_MIN, signal)
    for (const { shards, target } of this.#partsToAsk()) {
      const before = this.#told.size
      this.#options.onEvent?.({ kind: 'parts', shards })
      difficulty = await this.#request(target, difficulty, signal)
      if (this.#told.size > before) return
    }
  }

  /** Drawn from each number of parts that registrars named, the number that most named first; with a pin that curator's alone. */
  #partsToAsk(): { shards: number; target: Uint8Array }[] {
    const { crypto, random } = this.#c
    const said = new Map<number, number>()
    for (const { shards, told } of this.#parts.values()) said.set(shards, (said.get(shards) ?? 0) + told)
    const numbers = [...said].sort(([, a], [, b]) => b - a).slice(0, PART_NUMBERS_MAX)
    const drawn = numbers.map(([shards]) =>
      shuffled(
        random,
        Array.from({ length: shards }, (_, i) => i)
      ).map((i) => ({ shards, i }))
    )
    return Array.from({ length: PARTS_ASKED_MAX }, (_, at) => drawn.map((parts) => parts[at]))
      .flat()
      .filter((part) => part !== undefined)
      .slice(0, PARTS_ASKED_MAX)
      .map(({ shards, i }) => ({ shards, target: shardKey(crypto, this.#for.target as DsId, shards, i) }))
  }

  /** Once, and anew with more work while that is asked. @returns the bits that were enough */
  async #request(target: Uint8Array, bits: number, signal: AbortSignal): Promise<number> {
    let difficulty = bits
    for (let attempt = 1; ; attempt++) {
      const before = this.#told.size
      const rejection = await this.#attempt(target, difficulty, signal)
      signal.throwIfAborted()
      if (rejection === undefined || this.#told.size > before) return difficulty
      if (rejection.reason !== 'work' || rejection.difficulty <= difficulty || attempt === ATTEMPTS_MAX) throw refused(rejection)
      if (rejection.difficulty > SOLVER_BITS_MAX) throw tooHard(rejection.difficulty)
      difficulty = rejection.difficulty
      this.#options.onEvent?.({ kind: 'harder', difficulty })
    }
  }

  /** A whole request with a key of its own. @returns the refusal that came back, if one did */
  async #attempt(target: Uint8Array, difficulty: number, signal: AbortSignal): Promise<Rejection | undefined> {
    const { crypto, random, clock, solver } = this.#c
    const secret = random.bytes(32)
    try {
      const { want, fanOut, criteria: wanted } = this.#for
      const built = buildRequest(
        crypto,
        {
          records: want !== 'contact',
          contact: want !== 'records',
          difficulty,
          fanOut,
          target,
          ephemeral: crypto.x25519.publicKey(secret),
          timestampMs: clock.nowMs()
        },
        wanted
      )
      const seed = requestSeed(built.header)
      const nonce = await solver.solve(seed, difficulty, {
        signal,
        onProgress: (progress) => this.#options.onEvent?.({ kind: 'solving', progress })
      })
      const request = { header: withNonce(built.header, nonce), criteria: built.criteria }
      return await this.#send(request, { target, seed, secret, difficulty }, signal)
    } finally {
      secret.fill(0)
    }
  }

  async #send(
    request: { header: Uint8Array; criteria: Uint8Array },
    { target, seed, secret, difficulty }: { target: Uint8Array; seed: WorkSeed; secret: Uint8Array; difficulty: number },
    signal: AbortSignal
  ): Promise<Rejection | undefined> {
    let rejection: Rejection | undefined
    let faulty = 0
    let items = 0
    const receiver = {
      item: async (bytes: Uint8Array) => {
        if ((await this.#open(bytes, { target, seed, secret })) === 'faulty') faulty++
        items++
        return faulty >= FAULTY_ITEMS_MAX || items >= ITEMS_READ_MAX ? ('enough' as const) : ('more' as const)
      },
      reject: async (given: Rejection) => {
        if (rejection === undefined || given.difficulty > rejection.difficulty) rejection = given
      }
    }
    try {
      await withDeadline(this.#c.clock, ANSWERS_MS, signal, async (inner) => {
        if (await this.#overStem(request, target, difficulty, receiver, inner)) return
        await this.#direct(request, target, difficulty, receiver, inner)
      })
    } catch (error) {
      signal.throwIfAborted()
      // the time for answers is over: what came is what there is
      if (!(error instanceof RookeryError) || error.kind !== 'timeout') throw error
    }
    return rejection
  }

  /** Nobody is asked who the registrars are: that look-up would tell them who searches. */
  async #overStem(
    request: { header: Uint8Array; criteria: Uint8Array },
    target: Uint8Array,
    difficulty: number,
    receiver: Parameters<typeof sendOn>[3],
    signal: AbortSignal
  ): Promise<boolean> {
    const { host, random } = this.#c
    const table = host.dht.table()
    const registrars = new Set(host.dht.nearestKnown(target, this.#c.registrarsMax))
    const chosen = stemCandidates(table.length > 0 ? table : host.peers(), registrars, new Set([host.peer]))
    if (chosen === undefined) return false
    for (const peer of shuffled(random, chosen.peers).slice(0, STEM_TRIES_MAX)) {
      try {
        const sending = sendOn(host, { peer, addrs: [] }, request, receiver, signal)
        this.#options.onEvent?.({ kind: 'sent', path: chosen.path, difficulty })
        await sending
        return true
      } catch {
        signal.throwIfAborted()
      }
    }
    return false
  }

  async #direct(
    request: { header: Uint8Array; criteria: Uint8Array },
    target: Uint8Array,
    difficulty: number,
    receiver: Parameters<typeof sendOn>[3],
    signal: AbortSignal
  ): Promise<void> {
    const { host, random, registry } = this.#c
    const found = await registry.registrars(target, { signal })
    const registrars = shuffled(
      random,
      found.filter(({ peer }) => peer !== host.peer)
    )
    if (registrars.length === 0) throw noPeers()
    this.#options.onEvent?.({ kind: 'sent', path: 'direct', difficulty })
    const header = withHops(request.header, HOPS.registrar)
    const queue = registrars.values()
    let reached = 0
    const deliverOne = async () => {
      for (const registrar of queue) {
        try {
          await sendOn(host, registrar, { ...request, header }, receiver, signal)
          reached++
          return
        } catch {
          signal.throwIfAborted()
        }
      }
    }
    await Promise.all(Array.from({ length: DELIVERIES }, deliverOne))
    if (reached === 0) throw noPeers()
  }

  async #open(
    item: Uint8Array,
    { target, seed, secret }: { target: Uint8Array; seed: WorkSeed; secret: Uint8Array }
  ): Promise<'told' | 'known' | 'faulty'> {
    const { crypto, clock, locators, reputation } = this.#c
    const { criteria, curator } = this.#for
    try {
      const content = decodeAnswer(await openItem(crypto, { seed, secret, item }))
      if (content.announce !== undefined) return this.#learnParts(content.announce, target)
      const answer = verifyAnswer(crypto, content, { seed, target, nowMs: clock.nowMs() })
      const { eid, kind, join, gp, locator } = answer
      const tags = join?.payload.tags ?? (gp === undefined ? [] : [gp.payload.tag])
      const mode = join?.payload.mode ?? locator?.payload.mode
      const subject = { tags, reputation: reputation(eid), ...(mode === undefined ? {} : { mode }) }
      if ((join ?? gp) !== undefined && !meetsCriteria(subject, criteria)) return 'faulty'
      if (curator !== undefined && (join === undefined || !equals(join.payload.curator, curator))) return 'faulty'
      const name = eidHex(eid)
      const before = this.#told.get(name)
      if (before === 'member' || before === kind) return 'known'
      if (locator !== undefined) locators.learn(locator)
      this.#told.set(name, kind)
      const expiresAtSec = (join ?? gp ?? locator)?.payload.exp
      this.#tell({
        did: eidToDid(eid),
        eid,
        kind,
        tags,
        reachable: locator !== undefined,
        ...(mode === undefined ? {} : { mode }),
        ...(expiresAtSec === undefined ? {} : { expiresAtMs: expiresAtSec * 1_000 })
      })
      return 'told'
    } catch (error) {
      if (error instanceof ProtocolError) return 'faulty'
      throw error
    }
  }

  /** @throws ProtocolError what an announcement is refused for */
  #learnParts(announce: Uint8Array, target: Uint8Array): 'known' | 'faulty' {
    const { crypto, clock } = this.#c
    const { curator, shards } = verifySpaceAnswer(crypto, announce, { target, nowMs: clock.nowMs() }).payload
    if (this.#for.parts === 'known' || shards === 1) return 'known'
    if (this.#for.curator !== undefined && !equals(this.#for.curator, curator)) return 'known'
    const name = eidHex(curator)
    const before = this.#parts.get(name)
    if (before === undefined && this.#parts.size >= CURATORS_MAX) return 'known'
    this.#parts.set(name, { shards: Math.max(shards, before?.shards ?? 1), told: (before?.told ?? 0) + 1 })
    return 'known'
  }

  #tell(found: FoundAnonymously): void {
    this.#queue.push(found)
    this.#options.onEvent?.({ kind: 'found', found })
    this.#wake()
  }
}

function refused({ reason, difficulty }: Rejection): RookeryError {
  const why = {
    work: `work of ${difficulty} bits is asked for`,
    clock: 'the time of the request is not within two minutes of a clock on the way',
    full: 'a node on the way has no room for further requests'
  }[reason]
  return new RookeryError('DISCOVERY_REFUSED', `the request was refused: ${why}`, {
    kind: 'refused',
    field: reason === 'clock' ? 'clock' : 'difficulty',
    value: reason,
    remedy: reason === 'clock' ? 'check the clock of this machine (`date`), then search again' : 'search again in a minute'
  })
}

function noPeers(): RookeryError {
  return new RookeryError('NO_PEERS', 'no other node is known that could carry the request', {
    kind: 'unavailable',
    remedy: 'wait until this node has peers (`rookery status`), or name one with --bootstrap'
  })
}
