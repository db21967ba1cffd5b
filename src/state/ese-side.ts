import { toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import type { EseValue } from '../../protocol/state/batch.ts'
import type { EseBounds, EseDelta } from '../../protocol/state/map.ts'
import { EseReplica, type EseStatus } from '../../protocol/state/replica.ts'
import { EseOpener, EseSealer, type EseUse, eseId } from '../../protocol/state/seal.ts'
import { RookeryError } from '../errors.ts'
import type { Random } from '../platform/random.ts'
import { gone, lost } from './errors.ts'
import { WATCHERS_MAX, Watch } from './watch.ts'

export interface EseSideInit {
  crypto: CryptoProvider
  random: Random
  sid: Uint8Array
  bounds: EseBounds
  /** told how many bytes are held after every change */
  onBytes: (bytes: number) => void
}

/** One ESE of a session's pair, as this side holds it: its replica, what seals and opens its items, and who watches. */
export class EseSide {
  readonly name: 'own' | 'peer'
  readonly #init: EseSideInit
  #eid: Eid
  #seed: Uint8Array | undefined
  // Made at first use: most sessions of a node never touch their ESEs.
  #watches: Set<Watch> | undefined
  #replica: EseReplica | undefined
  #id: Uint8Array | undefined
  #sealers: Map<EseUse, EseSealer> | undefined
  #openers: Map<EseUse, EseOpener> | undefined
  #startStatus: EseStatus
  #goneReason = 'no key'

  /** @param seed - the owner's to overwrite; undefined: its key was destroyed, nothing can be written or read */
  constructor(
    init: EseSideInit,
    name: 'own' | 'peer',
    { eid, seed, status }: { eid: Eid; seed: Uint8Array | undefined; status: 'current' | 'lost' }
  ) {
    this.#init = init
    this.name = name
    this.#eid = eid
    this.#seed = seed
    this.#startStatus = seed === undefined ? 'gone' : status
  }

  get eid(): Eid {
    return this.#eid
  }

  get id(): Uint8Array {
    this.#id ??= eseId(this.#init.crypto, this.#init.sid, this.#eid)
    return this.#id
  }

  get replica(): EseReplica {
    if (this.#replica === undefined) {
      const { crypto, bounds } = this.#init
      this.#replica = new EseReplica(crypto, { bounds, status: this.#startStatus === 'lost' ? 'lost' : 'current' })
      if (this.#startStatus === 'gone') this.#replica.erase()
    }
    return this.#replica
  }

  get status(): EseStatus {
    return this.#replica?.status ?? this.#startStatus
  }

  /** Holds a value; asks without making anything. */
  get holdsValues(): boolean {
    return this.#replica !== undefined && this.#replica.map.size > 0
  }

  // ── sealing ──

  /** What seals our items of this ESE: under a run that is new in every process, and after every fault. */
  sealer(use: EseUse): EseSealer {
    this.#sealers ??= new Map()
    let sealer = this.#sealers.get(use)
    if (sealer === undefined) {
      const { crypto, random } = this.#init
      sealer = new EseSealer(crypto, this.#secret(), { id: this.id, run: random.bytes(16), use })
      this.#sealers.set(use, sealer)
    }
    return sealer
  }

  newRun(use: EseUse): void {
    this.#sealers?.delete(use)
  }

  opener(use: EseUse): EseOpener {
    this.#openers ??= new Map()
    let opener = this.#openers.get(use)
    if (opener === undefined) {
      opener = new EseOpener(this.#init.crypto, this.#secret(), use)
      this.#openers.set(use, opener)
    }
    return opener
  }

  #secret(): Uint8Array {
    if (this.#seed === undefined) throw gone(this.#goneReason)
    return this.#seed
  }

  // ── changes ──

  changed(delta: EseDelta): void {
    this.#init.onBytes(this.#bytes)
    for (const watch of this.#watches ?? []) {
      if (delta.cleared) watch.reset()
      else watch.changed(delta.keys)
    }
  }

  get #bytes(): number {
    return this.#replica?.map.bytes ?? 0
  }

  statusChanged(): void {
    this.#init.onBytes(this.#bytes)
    for (const watch of this.#watches ?? []) {
      watch.status(this.status)
      if (this.status === 'current') watch.reset()
    }
  }

  /** Overwrites values, seed and keys, at once. */
  erase(reason: string): void {
    this.#goneReason = reason
    this.#replica?.erase()
    this.#startStatus = 'gone'
    this.#forget()
    this.statusChanged()
  }

  /** Its writer has another EID: what was there is erased, and an empty ESE takes its place. @param seed - as in the constructor */
  renew(eid: Eid, seed: Uint8Array): void {
    this.erase('rotated')
    this.#eid = eid
    this.#seed = seed
    this.#id = undefined
    this.#replica = undefined
    this.#startStatus = 'current'
    this.#goneReason = 'rotated'
  }

  #forget(): void {
    for (const opener of this.#openers?.values() ?? []) opener.forget()
    this.#openers = undefined
    this.#sealers = undefined
    this.#seed?.fill(0)
    this.#seed = undefined
  }

  // ── reading ──

  /** @throws RookeryError `ESE_GONE`, `ESE_LOST` */
  checkReadable(): void {
    if (this.status === 'gone') throw gone(this.#goneReason)
    if (this.status === 'lost') throw lost(this.name)
  }

  get(key: string): EseValue | undefined {
    this.checkReadable()
    return this.#replica?.map.get(key)
  }

  hash(): string {
    this.checkReadable()
    return toHex(this.replica.map.hash())
  }

  /** @throws RookeryError `ESE_WATCHERS_MAX` */
  watch(keys: readonly string[] | undefined): { watch: Watch; stop: () => void } {
    this.#watches ??= new Set()
    const watches = this.#watches
    if (watches.size >= WATCHERS_MAX) {
      throw new RookeryError('ESE_WATCHERS_MAX', `${WATCHERS_MAX} watch this state already`, {
        kind: 'unavailable',
        field: 'watchers',
        value: WATCHERS_MAX,
        remedy: 'end one of them first'
      })
    }
    const wanted = keys === undefined ? undefined : new Set(keys)
    const watch = new Watch(wanted === undefined ? undefined : (key) => wanted.has(key))
    watches.add(watch)
    return { watch, stop: () => watches.delete(watch) }
  }

  /** The session is over: watchers are told the rest, and end. */
  endWatches(): void {
    for (const watch of this.#watches ?? []) watch.end()
    this.#watches?.clear()
  }
}
