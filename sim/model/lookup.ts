import type { Places, RoutingTable } from './routing-table.ts'

/** As in `src/net/dht-lookup.ts`: one FIND_NODE, and RPCs of one look-up. */
const ASK_TIMEOUT_MS = 4_000
const ASKED_MAX = 200

/** The network as a look-up sees it. */
export interface LookupWorld {
  readonly places: Places
  readonly k: number
  readonly alpha: number
  table(node: number): RoutingTable
  isUp(node: number): boolean
  /** one RPC there and back, or undefined where nothing comes back */
  roundTripMs(from: number, to: number): number | undefined
  /** both now know of each other */
  met(a: number, b: number): void
}

export interface LookupResult {
  /** the nearest that answered, nearest first */
  nodes: number[]
  /** RPCs in a row to each of them: 1 for a peer of our own table */
  hops: number[]
  tookMs: number
  rpcs: number
}

interface Known {
  peer: number
  dHi: number
  dLo: number
  hops: number
  state: 'new' | 'asked' | 'answered' | 'gone'
}

/** Kademlia's node look-up by the rule of `Lookup` in `src/net`: the nearest that it knows are asked, until the k nearest of its list have been. */
export function lookUp(world: LookupWorld, from: number, hi: number, lo: number): LookupResult {
  const { places, k, alpha } = world
  const known: Known[] = []
  const seen = new Set<number>([from])
  const learn = (peer: number, hops: number) => {
    if (seen.has(peer)) return
    seen.add(peer)
    const one: Known = {
      peer,
      dHi: ((places.hi[peer] as number) ^ hi) >>> 0,
      dLo: ((places.lo[peer] as number) ^ lo) >>> 0,
      hops,
      state: 'new'
    }
    let i = known.length
    known.push(one)
    while (i > 0 && isFarther(known[i - 1] as Known, one)) {
      known[i] = known[i - 1] as Known
      i--
    }
    known[i] = one
  }
  const own = world.table(from)
  for (const peer of own.closest(hi, lo, k)) learn(peer, 1)
  const running: { one: Known; doneMs: number; answers: boolean }[] = []
  let nowMs = 0
  let rpcs = 0
  for (;;) {
    while (running.length < alpha && rpcs < ASKED_MAX) {
      const next = nextToAsk(known, k)
      if (next === undefined) break
      next.state = 'asked'
      rpcs++
      const roundTrip = world.isUp(next.peer) ? world.roundTripMs(from, next.peer) : undefined
      running.push({ one: next, doneMs: nowMs + (roundTrip ?? ASK_TIMEOUT_MS), answers: roundTrip !== undefined })
    }
    if (running.length === 0) break
    let first = 0
    for (let i = 1; i < running.length; i++)
      if ((running[i] as { doneMs: number }).doneMs < (running[first] as { doneMs: number }).doneMs) first = i
    const [{ one, doneMs, answers }] = running.splice(first, 1) as [{ one: Known; doneMs: number; answers: boolean }]
    nowMs = doneMs
    if (!answers) {
      one.state = 'gone'
      own.remove(one.peer)
      continue
    }
    one.state = 'answered'
    world.met(from, one.peer)
    for (const peer of world.table(one.peer).closest(hi, lo, k, from)) {
      learn(peer, one.hops + 1)
      // kad-dht pings whom an answer names where it has room for it, by which that one learns of the node too
      if (own.wants(peer) && world.isUp(peer)) world.met(from, peer)
    }
  }
  const found = known.filter(({ state }) => state === 'answered').slice(0, k)
  return { nodes: found.map(({ peer }) => peer), hops: found.map(({ hops }) => hops), tookMs: nowMs, rpcs }
}

function isFarther(a: Known, b: Known): boolean {
  return a.dHi > b.dHi || (a.dHi === b.dHi && a.dLo > b.dLo)
}

/** The nearest not asked among the k nearest that are not gone. */
function nextToAsk(known: readonly Known[], k: number): Known | undefined {
  let counted = 0
  for (const one of known) {
    if (one.state === 'gone') continue
    if (++counted > k) return undefined
    if (one.state === 'new') return one
  }
  return undefined
}
