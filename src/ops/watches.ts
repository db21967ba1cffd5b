import type { ControlHandlers } from '../api/control-server.ts'
import type { Dht } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import { stateClass } from '../tasks/states.ts'
import type { Todos } from '../tasks/todo.ts'
import type { WorkSolver } from '../work/work-solver.ts'
import type { Observed } from './observed.ts'
import type { OpsRoute } from './ops-server.ts'

interface Watching {
  clock: Clock
  observed: Observed
}

/** Times what is asked of the DHT from now on. `empty`: nothing was found, or nobody took what was put. */
export function watchDht(dht: Dht, { clock, observed }: Watching): void {
  const { closestPeers, put, values } = dht
  const timed = async <T>(query: string, ask: () => Promise<T>, isEmpty: (answer: T) => boolean): Promise<T> => {
    const startMs = clock.monotonicMs()
    const told = (outcome: string) => observed.dht.observe({ query, outcome }, (clock.monotonicMs() - startMs) / 1_000)
    try {
      const answer = await ask()
      told(isEmpty(answer) ? 'empty' : 'found')
      return answer
    } catch (error) {
      told('failed')
      throw error
    }
  }
  dht.closestPeers = (key, options) =>
    timed(
      'closest_peers',
      () => closestPeers.call(dht, key, options),
      (peers) => peers.length === 0
    )
  dht.put = (key, value, options) =>
    timed(
      'put',
      () => put.call(dht, key, value, options),
      ({ stored }) => stored === 0
    )
  dht.values = async function* (key, options) {
    const startMs = clock.monotonicMs()
    let outcome = 'empty'
    try {
      for await (const value of values.call(dht, key, options)) {
        outcome = 'found'
        yield value
      }
    } catch (error) {
      outcome = 'failed'
      throw error
    } finally {
      observed.dht.observe({ query: 'values', outcome }, (clock.monotonicMs() - startMs) / 1_000)
    }
  }
}

/** Counts tasks as they begin and end, and how long they took. */
export function watchTodos(todos: Pick<Todos, 'onCommit'>, { observed }: Pick<Watching, 'observed'>): void {
  todos.onCommit(({ createdAtMs }, events) => {
    for (const { kind, state, door, atMs } of events) {
      if (kind === 'created') observed.tasksCreated.inc({ door })
      if ((kind === 'ended' || kind === 'created') && stateClass(state) === 'terminal') {
        observed.tasks.observe({ state }, Math.max(0, atMs - createdAtMs) / 1_000)
      }
    }
  })
}

/** The same solver, timed. */
export function watchedSolver(solver: WorkSolver, { clock, observed }: Watching): WorkSolver {
  return {
    async solve(seed, bits, options = {}) {
      const startMs = clock.monotonicMs()
      let tries = 0
      let outcome = 'given_up'
      try {
        const nonce = await solver.solve(seed, bits, {
          ...options,
          onProgress: (progress) => {
            tries = progress.tries
            options.onProgress?.(progress)
          }
        })
        outcome = 'solved'
        return nonce
      } finally {
        observed.work.observe({ outcome }, (clock.monotonicMs() - startMs) / 1_000)
        observed.workTries.inc(tries)
      }
    },
    stop: () => solver.stop()
  }
}

/** The same handlers, each call timed under the name of its method. */
export function watchedHandlers(handlers: ControlHandlers, { clock, observed }: Watching): ControlHandlers {
  const watched = Object.entries(handlers).map(([method, handle]) => {
    const call = handle as (params: unknown, context: unknown) => unknown
    const timed = async (params: unknown, context: unknown) => {
      const startMs = clock.monotonicMs()
      let outcome = 'failed'
      try {
        const result = await call(params, context)
        outcome = 'answered'
        return result
      } finally {
        observed.control.observe({ method, outcome }, (clock.monotonicMs() - startMs) / 1_000)
      }
    }
    return [method, timed]
  })
  return Object.fromEntries(watched) as ControlHandlers
}

/** The same route of the operator's server, timed. */
export function watchedRoute(route: OpsRoute, { clock, observed }: Watching): OpsRoute {
  return {
    ...route,
    handle(req, res, url) {
      const startMs = clock.monotonicMs()
      res.once('close', () => {
        const labels = { door: 'ops', route: route.path, method: route.method, status: `${Math.floor(res.statusCode / 100)}xx` }
        observed.http.observe(labels, (clock.monotonicMs() - startMs) / 1_000)
      })
      return route.handle(req, res, url)
    }
  }
}
