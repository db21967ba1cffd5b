import type { DiscoverQuery } from '../discovery/create-discovery.ts'
import type { DiscoveryEvent, FoundAnonymously } from '../discovery/discover.ts'
import type { RookeryNode } from '../rookery-node.ts'
import type { ControlContext } from './control-server.ts'
import type { ControlParams, DiscoverEventView, DiscoveredView, DiscoverResult } from './methods.ts'

/** One anonymous search for a caller of the control API: answers as events, all of them as the result. */
export async function discover(node: RookeryNode, params: ControlParams<'discover'>, context: ControlContext): Promise<DiscoverResult> {
  const startedMs = node.clock.monotonicMs()
  const result: DiscoverResult = { found: [], difficulty: 0, tries: 0, elapsedMs: 0 }
  const tell = (event: DiscoverEventView) => context.event(event)
  const onEvent = (event: DiscoveryEvent) => {
    switch (event.kind) {
      case 'found':
        return tell({ kind: 'found', found: viewOf(event.found) })
      case 'sent':
        result.path = event.path
        result.difficulty = event.difficulty
        return tell(event)
      case 'solving':
        result.tries = event.progress.tries
        return tell(event)
      case 'parts':
      case 'harder':
        return tell(event)
    }
  }
  const query = Object.fromEntries(Object.entries(params).filter(([, value]) => value !== undefined)) as DiscoverQuery
  for await (const found of node.discover(query, { signal: context.signal, onEvent })) result.found.push(viewOf(found))
  result.elapsedMs = Math.round(node.clock.monotonicMs() - startedMs)
  return result
}

function viewOf({ eid: _, ...view }: FoundAnonymously): DiscoveredView {
  return view
}
