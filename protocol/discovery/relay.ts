import { HOPS } from './request.ts'
import { ITEMS_MAX } from './response.ts'

/** How long any hop keeps the streams of one request. */
export const RELAY_MS_MAX = 15_000
/** Registrars that the second stem peer delivers to. */
export const DELIVERIES = 3

export type DiscoveryRole = keyof typeof HOPS

/** What a node is for a request, by the hops that it arrived with. */
export function roleOf(hops: number): DiscoveryRole {
  const role = (Object.keys(HOPS) as DiscoveryRole[]).find((name) => HOPS[name] === hops)
  if (role === undefined) throw new RangeError(`no hop has ${hops} left`)
  return role
}

/** Members that one of the registrars forwards to: a third of the fan-out, rounded up. */
export function membersOfEach(fanOut: number): number {
  return Math.ceil(fanOut / DELIVERIES)
}

/** What one hop may still pass back for one request: at most 32 items and one REJ, wherever they come from. */
export class Allowance {
  #items = ITEMS_MAX
  #rejections = 1

  get items(): number {
    return this.#items
  }

  takeItem(): boolean {
    if (this.#items === 0) return false
    this.#items--
    return true
  }

  takeRejection(): boolean {
    if (this.#rejections === 0) return false
    this.#rejections--
    return true
  }
}

/**
 * Who carries a request first. Nobody is asked for it: a look-up of the target would tell its registrars who searches.
 * @param table - PeerIds of the routing table
 * @param registrars - those of them that are, as far as this node can tell by itself, registrars of the target
 * @param except - whom not to take: where the request came from
 * @returns `stem`: no registrar; `small`: the network is too small, it may be one; undefined: there is nobody
 */
export function stemCandidates(
  table: readonly string[],
  registrars: ReadonlySet<string>,
  except: ReadonlySet<string> = new Set()
): { peers: string[]; path: 'stem' | 'small' } | undefined {
  const all = table.filter((peer) => !except.has(peer))
  const others = all.filter((peer) => !registrars.has(peer))
  if (others.length > 0) return { peers: others, path: 'stem' }
  return all.length > 0 ? { peers: all, path: 'small' } : undefined
}
