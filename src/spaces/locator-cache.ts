import { equals } from '../../protocol/bytes.ts'
import { type Eid, type EidHex, eidHex } from '../../protocol/identity/eid.ts'
import { recordExpiresAtMs } from '../../protocol/records/envelope.ts'
import { type LocatorRecord, selectLocator } from '../../protocol/records/locator.ts'

/** Agents whose locators are remembered; the one asked for longest ago goes first. */
const LOCATORS_MAX = 10_000

interface Remembered {
  record: LocatorRecord
  seenAtMs: number
  equivocated: boolean
}

/** The newest locator ever seen of each agent: an older one is never accepted after it, and `gone` stays gone. */
export class LocatorCache {
  readonly #byEid = new Map<EidHex, Remembered>()

  /** Takes the record unless a newer one is known. Two different ones of one generation are told, and the first stays. */
  offer(record: LocatorRecord, nowMs: number): 'newer' | 'known' | 'older' | 'equivocation' {
    const name = eidHex(record.payload.eid)
    const held = this.#byEid.get(name)
    if (held === undefined) {
      if (this.#byEid.size >= LOCATORS_MAX) this.#byEid.delete(this.#byEid.keys().next().value as EidHex)
      this.#byEid.set(name, { record, seenAtMs: nowMs, equivocated: false })
      return 'newer'
    }
    const { winner, reason } = selectLocator(held.record, record)
    if (winner === 'offered') {
      this.#byEid.set(name, { record, seenAtMs: nowMs, equivocated: held.equivocated })
      return 'newer'
    }
    if (reason === 'equivocation') {
      held.equivocated = true
      return 'equivocation'
    }
    if (!equals(held.record.bytes, record.bytes)) return 'older'
    held.seenAtMs = nowMs
    return 'known'
  }

  get(eid: Eid): Remembered | undefined {
    const name = eidHex(eid)
    const held = this.#byEid.get(name)
    if (held === undefined) return undefined
    this.#byEid.delete(name)
    this.#byEid.set(name, held)
    return held
  }

  /** The record, while it lives. */
  live(eid: Eid, nowMs: number): LocatorRecord | undefined {
    const held = this.get(eid)
    return held !== undefined && recordExpiresAtMs(held.record) > nowMs ? held.record : undefined
  }
}
