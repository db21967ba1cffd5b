import type { RookeryNode } from '../rookery-node.ts'
import { BOUND_NEAR, type BoundsSource, boundsOf, boundText } from './bounds.ts'

export interface Check {
  /** `spaces`: only while records of ours are late, or many lack somewhere; `clock`: only while it is behind; `node`: only while it stops */
  name: 'store' | 'a2a' | 'network' | 'handlers' | 'bounds' | 'spaces' | 'clock' | 'node'
  /** `note`: worth knowing, no reason to hold work back */
  state: 'ok' | 'note' | 'failed'
  detail: string
}

export interface Health {
  /** the process serves, its store can be written and its sockets are not dead for good: else a restart is due */
  live: boolean
  /** work may be sent here */
  ready: boolean
  checks: Check[]
}

/** What is asked of a node. */
export type HealthSource = Pick<RookeryNode, 'storeState' | 'handlerFault' | 'httpUrl' | 'signal' | 'drainHeld'> &
  BoundsSource & {
    host: Pick<RookeryNode['host'], 'peers' | 'fault'>
    agents: Pick<RookeryNode['agents'], 'list'>
    spaces: Pick<RookeryNode['spaces'], 'upkeep'>
    config: Pick<RookeryNode['config'], 'http'>
  }

/** Records that wait so long for their turn are told of: a join is to be put four times in its hour. */
const LATE_MS = 5 * 60_000
/** So many that some registrars lack are told of: a few at a time are usual. */
const PARTIAL_MIN = 10
const PARTIAL_SHARE = 0.1

/** How a node is, from what it says of itself. A node without peers is ready: it serves its own agents, and waits for others. */
export async function healthOf(node: HealthSource): Promise<Health> {
  const store = await node.storeState()
  const peers = node.host.peers().length
  const broken = node.host.fault?.()
  const stopped = node.agents.list().filter((agent) => node.handlerFault(agent) !== undefined)
  const checks: Check[] = [
    store.state === 'ok'
      ? { name: 'store', state: 'ok', detail: 'takes writes' }
      : { name: 'store', state: 'failed', detail: `${store.state}: ${store.reason ?? 'nothing new is taken'}` },
    node.config.http.enabled && node.httpUrl === undefined
      ? { name: 'a2a', state: 'failed', detail: 'not open' }
      : { name: 'a2a', state: 'ok', detail: node.httpUrl ?? 'off by http.enabled' },
    broken !== undefined
      ? { name: 'network', state: 'failed', detail: broken.detail }
      : peers === 0
        ? { name: 'network', state: 'note', detail: 'no peer yet; what is announced waits' }
        : { name: 'network', state: 'ok', detail: `${peers} ${peers === 1 ? 'peer' : 'peers'}` },
    stopped.length === 0
      ? { name: 'handlers', state: 'ok', detail: 'all at work' }
      : { name: 'handlers', state: 'note', detail: `none at work for ${stopped.map(({ name }) => name).join(', ')}` }
  ]
  const near = boundsOf(node).filter(({ used, max }) => used >= max * BOUND_NEAR)
  checks.push(
    near.length === 0
      ? { name: 'bounds', state: 'ok', detail: 'none is near' }
      : { name: 'bounds', state: 'note', detail: near.map(boundText).join('; ') }
  )
  const { records, partial, waiting, lateMs } = node.spaces.upkeep()
  if (lateMs >= LATE_MS) {
    const detail = `${waiting.toLocaleString('en')} records of our spaces wait to be put again, the first for ${Math.floor(lateMs / 60_000)} min: those that wait past their end are found by nobody`
    checks.push({ name: 'spaces', state: 'note', detail })
  } else if (peers > 0 && partial >= PARTIAL_MIN && partial > records * PARTIAL_SHARE) {
    const detail = `${partial.toLocaleString('en')} of ${records.toLocaleString('en')} records of our spaces do not lie at every registrar yet: they are put again; a registrar takes so many of one node a minute`
    checks.push({ name: 'spaces', state: 'note', detail })
  }
  const { drainHeld } = node
  if (drainHeld !== undefined) checks.push({ name: 'clock', state: 'note', detail: `no queue is handed over: ${drainHeld}` })
  if (node.signal.aborted) checks.push({ name: 'node', state: 'failed', detail: 'stopping: what is under way ends, nothing new is taken' })
  const ready = checks.every(({ state }) => state !== 'failed')
  return { live: store.state !== 'down' && broken?.needs !== 'restart', ready, checks }
}
