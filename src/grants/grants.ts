import { equalsConstantTime, fromHex, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { grantEnded } from '../a2a/a2a-error.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import { KeyedLock } from '../platform/keyed-lock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import { jsonCodec, type Store, type Table, type WriteOp } from '../store/store.ts'
import { credentialHash, grantOfCredential, newCredential } from './credential.ts'
import {
  GRANT_NAME,
  GRANT_QUEUES_MAX,
  GRANT_TTL_DEFAULT_MS,
  GRANT_TTL_MAX_MS,
  type GrantEvent,
  type GrantRow,
  type GrantState,
  QUEUE_NAME,
  type SendLimits
} from './grant.ts'
import { GRANT_VERBS, type GrantVerb } from './principal.ts'

/** Grants in force; above it `GRANTS_FULL`. */
export const GRANTS_MAX = 10_000
/** Grants that have ended and are still listed; beyond it the one that ended first goes. */
export const GRANTS_ENDED_MAX = 1_000
/** Timers longer than this are cut by the platform. */
const LOOK_AGAIN_MS = 6 * 3_600_000
const ID_BYTES = 8

export interface GrantsComponents {
  store: Store
  crypto: CryptoProvider
  random: Random
  clock: Clock
  logger: Logger
}

export interface GrantCreate {
  /** the agent's first EID */
  agent: EidHex
  name: string
  /** the EID that its holder was first known by here */
  peer?: EidHex | undefined
  /** default: all */
  verbs?: readonly GrantVerb[] | undefined
  /** named queues of the agent; default: any */
  queues?: readonly string[] | undefined
  /** default 90 days, at most 366 */
  ttlMs?: number | undefined
  limits?: Partial<SendLimits> | undefined
  origin?: GrantRow['origin'] | undefined
  /** whether one of the same agent and peer that is in force gives way, in the same write; default: it is refused */
  replace?: boolean | undefined
  /** `none`: it is used over sessions alone */
  credential?: 'shown' | 'none' | undefined
  /** written in the same batch */
  alongside?: (grant: GrantRow) => readonly WriteOp[]
}

/**
 * The vended endpoints of this node's agents (TD-02 … TD-06): each made by the owner's word alone, for one agent, for a time, revocable at once. On disk, synced, before
 * anything is promised; all of it in memory, so that a check reads nothing.
 */
export class Grants {
  readonly #c: GrantsComponents
  readonly #table: Table<GrantRow>
  readonly #rows = new Map<string, GrantRow>()
  /** the grant in force of an agent and a peer, else the one that ended last */
  readonly #ofPeer = new Map<string, GrantRow>()
  /** made when somebody first asks for it; goes with the row */
  readonly #ended = new Map<string, AbortController>()
  readonly #expired = new Set<string>()
  readonly #hooks = new Set<(event: GrantEvent) => void>()
  readonly #lock = new KeyedLock()
  /** compared with where there is no grant, so that both take the same time */
  readonly #nobody: Uint8Array
  #cancelTimer: () => void = () => {}
  #stopped = false

  private constructor(components: GrantsComponents) {
    this.#c = components
    this.#table = components.store.table('grant', jsonCodec<GrantRow>())
    this.#nobody = components.random.bytes(32)
  }

  static async open(components: GrantsComponents): Promise<Grants> {
    const grants = new Grants(components)
    const rows: GrantRow[] = []
    for await (const [, row] of grants.#table.entries()) rows.push(row)
    for (const row of rows.sort((a, b) => a.createdAtMs - b.createdAtMs)) grants.#take(row)
    grants.#expire('quiet')
    return grants
  }

  stop(): void {
    this.#stopped = true
    this.#cancelTimer()
  }

  /** Oldest first. */
  list(): GrantRow[] {
    return [...this.#rows.values()]
  }

  get(id: string): GrantRow | undefined {
    return this.#rows.get(id)
  }

  state(grant: GrantRow): GrantState {
    if (grant.revokedAtMs !== undefined) return 'revoked'
    return this.#expired.has(grant.id) || grant.expiresAtMs <= this.#c.clock.nowMs() ? 'expired' : 'in-force'
  }

  /** The grant in force that a credential proves. Takes the same time for a wrong secret and for a grant that is not there. */
  ofCredential(text: string): GrantRow | undefined {
    const id = grantOfCredential(text)
    const grant = id === undefined ? undefined : this.#rows.get(id)
    const held = grant?.hash === undefined ? this.#nobody : fromHex(grant.hash)
    const isIt = equalsConstantTime(credentialHash(this.#c.crypto, text), held)
    return isIt && grant?.hash !== undefined && this.state(grant) === 'in-force' ? grant : undefined
  }

  /** The grant of an agent for a peer, by the first EID of each: the one in force, else the one that ended last. */
  ofPeer(agent: EidHex, peer: EidHex): GrantRow | undefined {
    return this.#ofPeer.get(pair(agent, peer))
  }

  /** Fires when the grant ends; has fired where it ended before. */
  ended(grant: GrantRow): AbortSignal {
    let ended = this.#ended.get(grant.id)
    if (ended === undefined) {
      ended = new AbortController()
      this.#ended.set(grant.id, ended)
      if (this.state(grant) !== 'in-force') ended.abort(grantEnded())
    }
    return ended.signal
  }

  /** Called after every change is on disk. Returns the unsubscriber. */
  onEvent(hook: (event: GrantEvent) => void): () => void {
    this.#hooks.add(hook)
    return () => this.#hooks.delete(hook)
  }

  /**
   * Makes a grant. Only the owner's doors call this: the control API, the library, and the owner's answer to a friend request.
   * @returns the credential, which is stored nowhere
   * @throws RookeryError `GRANT_INVALID`, `GRANT_EXISTS`, `GRANTS_FULL`, those of the store
   */
  async create(input: GrantCreate): Promise<{ grant: GrantRow; credential: string | undefined }> {
    const { name, verbs = GRANT_VERBS, ttlMs = GRANT_TTL_DEFAULT_MS, limits, peer, agent, origin = 'owner' } = input
    if (!GRANT_NAME.test(name)) throw invalid('name', name.slice(0, 80), 'is 1 to 64 printable characters')
    if (verbs.length === 0) throw invalid('verbs', verbs, 'names at least one verb')
    const { queues } = input
    if (queues !== undefined && (queues.length === 0 || queues.length > GRANT_QUEUES_MAX || !queues.every((one) => QUEUE_NAME.test(one)))) {
      throw invalid('queues', queues.slice(0, 16), `is 1 to ${GRANT_QUEUES_MAX} names of 1 to 64 characters of A-Z a-z 0-9 . _ -`)
    }
    if (!Number.isSafeInteger(ttlMs) || ttlMs < 1_000 || ttlMs > GRANT_TTL_MAX_MS) throw invalid('ttlMs', ttlMs, 'is 1 s to 366 days')
    return await this.#lock.run('grants', async () => {
      const held = peer === undefined ? undefined : this.ofPeer(agent, peer)
      const before = held !== undefined && this.state(held) === 'in-force' ? held : undefined
      if (before !== undefined && input.replace !== true) {
        throw new RookeryError('GRANT_EXISTS', `the agent has a grant for this peer already: ${before.id}`, {
          kind: 'conflict',
          field: 'peer',
          value: before.id,
          remedy: `revoke it first (rookery grant revoke ${before.id}), or replace it (--replace)`
        })
      }
      if (this.#inForce() - (before === undefined ? 0 : 1) >= GRANTS_MAX) {
        throw new RookeryError('GRANTS_FULL', `${GRANTS_MAX} grants are in force`, {
          kind: 'refused',
          field: 'grantsMax',
          value: GRANTS_MAX,
          remedy: 'revoke some with `rookery grant revoke`'
        })
      }
      const id = toHex(this.#c.random.bytes(ID_BYTES))
      const credential = input.credential === 'none' ? undefined : newCredential(id, this.#c.random)
      const nowMs = this.#c.clock.nowMs()
      const grant: GrantRow = {
        id,
        agent,
        name,
        ...(peer === undefined ? {} : { peer }),
        verbs: GRANT_VERBS.filter((verb) => verbs.includes(verb)),
        ...(queues === undefined ? {} : { queues: [...new Set(queues)] }),
        ...(credential === undefined ? {} : { hash: toHex(credentialHash(this.#c.crypto, credential)) }),
        ...(limits === undefined ? {} : { limits }),
        origin,
        createdAtMs: nowMs,
        expiresAtMs: nowMs + ttlMs
      }
      const revoked = before === undefined ? undefined : { ...before, revokedAtMs: nowMs }
      await this.#commit([
        this.#table.put(id, grant),
        ...(revoked === undefined ? [] : [this.#table.put(revoked.id, revoked)]),
        ...(input.alongside?.(grant) ?? [])
      ])
      if (revoked !== undefined) this.#end(revoked, 'revoked')
      this.#take(grant)
      this.#tell({ kind: 'created', grant })
      this.#expire()
      return { grant, credential }
    })
  }

  /** Another rate from now on; `undefined` members follow the node's setting again. @throws RookeryError `GRANT_UNKNOWN`, `GRANT_ENDED` */
  async tune(id: string, limits: Partial<SendLimits>): Promise<GrantRow> {
    return await this.#lock.run('grants', async () => {
      const held = this.#held(id)
      if (this.state(held) !== 'in-force') {
        throw new RookeryError('GRANT_ENDED', `the grant ${id} is ${this.state(held)}`, { kind: 'conflict', field: 'id', value: id })
      }
      const { limits: _, ...rest } = held
      const grant: GrantRow = Object.keys(limits).length === 0 ? rest : { ...rest, limits }
      await this.#commit([this.#table.put(id, grant)])
      this.#replace(grant)
      this.#tell({ kind: 'tuned', grant })
      return grant
    })
  }

  /**
   * Ends a grant at once: what runs in its name is told before the write, and the next check fails. One that has ended is given back.
   * @throws RookeryError `GRANT_UNKNOWN`; those of the store: then it has ended until the next start only, and is to be revoked again
   */
  async revoke(id: string, alongside: readonly WriteOp[] = []): Promise<GrantRow> {
    return await this.#lock.run('grants', async () => {
      const held = this.#held(id)
      if (held.revokedAtMs !== undefined) return held
      const grant: GrantRow = { ...held, revokedAtMs: this.#c.clock.nowMs() }
      this.#replace(grant)
      this.#ended.get(id)?.abort(grantEnded())
      await this.#c.store.commit([this.#table.put(id, grant), ...this.#oldest(), ...alongside], { room: 'reserve' })
      this.#tell({ kind: 'revoked', grant })
      return grant
    })
  }

  #held(id: string): GrantRow {
    const grant = this.#rows.get(id)
    if (grant !== undefined) return grant
    throw new RookeryError('GRANT_UNKNOWN', `there is no grant ${id.slice(0, 32)}`, {
      kind: 'notFound',
      field: 'id',
      value: id.slice(0, 32),
      remedy: 'list them with `rookery grant list`'
    })
  }

  async #commit(ops: readonly WriteOp[]): Promise<void> {
    await this.#c.store.commit([...ops, ...this.#oldest()])
  }

  /** Ended ones beyond the bound. */
  #oldest(): WriteOp[] {
    const ended = this.list().filter((grant) => this.state(grant) !== 'in-force')
    const surplus = ended.sort((a, b) => endOf(a) - endOf(b)).slice(0, Math.max(0, ended.length - GRANTS_ENDED_MAX))
    return surplus.map(({ id, agent, peer }) => {
      this.#rows.delete(id)
      this.#ended.delete(id)
      this.#expired.delete(id)
      if (peer !== undefined && this.#ofPeer.get(pair(agent, peer))?.id === id) this.#ofPeer.delete(pair(agent, peer))
      return this.#table.del(id)
    })
  }

  #inForce(): number {
    let count = 0
    for (const grant of this.#rows.values()) if (this.state(grant) === 'in-force') count++
    return count
  }

  #take(grant: GrantRow): void {
    this.#rows.set(grant.id, grant)
    if (grant.peer === undefined) return
    const key = pair(grant.agent, grant.peer)
    const other = this.#ofPeer.get(key)
    if (other === undefined || other.id === grant.id || this.state(other) !== 'in-force') this.#ofPeer.set(key, grant)
  }

  /** The same one, changed. */
  #replace(grant: GrantRow): void {
    this.#rows.set(grant.id, grant)
    if (grant.peer !== undefined && this.#ofPeer.get(pair(grant.agent, grant.peer))?.id === grant.id) {
      this.#ofPeer.set(pair(grant.agent, grant.peer), grant)
    }
  }

  #end(grant: GrantRow, kind: 'revoked' | 'expired'): void {
    if (kind === 'expired') this.#expired.add(grant.id)
    else this.#replace(grant)
    this.#ended.get(grant.id)?.abort(grantEnded())
    this.#tell({ kind, grant })
  }

  /** Ends what is due, and looks again when the next one is. An expired grant stays so where the clock goes back. */
  #expire(how: 'quiet' | 'told' = 'told'): void {
    this.#cancelTimer()
    if (this.#stopped) return
    const nowMs = this.#c.clock.nowMs()
    let nextMs = LOOK_AGAIN_MS
    for (const grant of this.#rows.values()) {
      if (grant.revokedAtMs !== undefined || this.#expired.has(grant.id)) continue
      if (grant.expiresAtMs > nowMs) nextMs = Math.min(nextMs, grant.expiresAtMs - nowMs)
      else if (how === 'quiet') this.#expired.add(grant.id)
      else this.#end(grant, 'expired')
    }
    this.#cancelTimer = this.#c.clock.after(nextMs, () => this.#expire())
  }

  #tell(event: GrantEvent): void {
    for (const hook of this.#hooks) {
      try {
        hook(event)
      } catch (err) {
        this.#c.logger.error({ err }, 'a listener of grants failed')
      }
    }
  }
}

function pair(agent: EidHex, peer: EidHex): string {
  return `${agent}:${peer}`
}

function endOf({ revokedAtMs, expiresAtMs }: GrantRow): number {
  return Math.min(revokedAtMs ?? expiresAtMs, expiresAtMs)
}

function invalid(field: string, value: unknown, why: string): RookeryError {
  return new RookeryError('GRANT_INVALID', `${field} ${why}`, { kind: 'usage', field, value })
}
