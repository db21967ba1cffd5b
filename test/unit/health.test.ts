import { describe, expect, it } from 'vitest'
import type { HostFault } from '../../src/net/host.ts'
import { type Health, type HealthSource, healthOf } from '../../src/ops/health.ts'
import type { UpkeepStats } from '../../src/spaces/refresher.ts'
import type { StoreState } from '../../src/store/store.ts'

const stopping = AbortSignal.abort(new Error('the node stops'))

function source(
  change: {
    store?: StoreState
    httpUrl?: string | undefined
    signal?: AbortSignal
    peers?: number
    fault?: string
    sessions?: number
    openTasks?: number
    upkeep?: Partial<UpkeepStats>
    broken?: HostFault
  } = {}
): HealthSource {
  return {
    storeState: async () => change.store ?? { state: 'ok' },
    httpUrl: 'httpUrl' in change ? change.httpUrl : 'http://127.0.0.1:4710',
    signal: change.signal ?? new AbortController().signal,
    handlerFault: () => (change.fault === undefined ? undefined : { code: change.fault }),
    host: { peers: () => Array.from({ length: change.peers ?? 1 }), fault: () => change.broken },
    agents: { list: () => [{ name: 'alice' }] },
    config: { http: { enabled: true }, sessionsMax: 1_000, registry: { bytesMax: 1_000 } },
    sessions: { held: () => ({ sessions: change.sessions ?? 0 }) },
    registry: { stats: () => ({ bytes: 0 }) },
    todos: { openCount: change.openTasks ?? 0, bounds: { openMax: 10_000 } },
    spaces: { upkeep: () => ({ records: 0, partial: 0, waiting: 0, lateMs: 0, ...change.upkeep }) }
  } as unknown as HealthSource
}

const failed = ({ checks }: Health) => checks.filter(({ state }) => state === 'failed').map(({ name }) => name)

describe('health and readiness', () => {
  it('both hold while the node serves, with no peer and with a handler that is not at work too', async () => {
    for (const change of [{}, { peers: 0 }, { fault: 'HANDLER_LOAD_FAILED' }]) {
      const health = await healthOf(source(change))
      expect([health.live, health.ready, failed(health)]).toEqual([true, true, []])
    }
    expect((await healthOf(source({ peers: 0 }))).checks.find(({ name }) => name === 'network')?.state).toBe('note')
    expect((await healthOf(source({ fault: 'X' }))).checks.find(({ name }) => name === 'handlers')?.detail).toContain('alice')
  })

  it('a full disk, or a write that failed, holds work back, and no restart would help', async () => {
    for (const state of ['full', 'failing'] as const) {
      const health = await healthOf(source({ store: { state, reason: 'no room' } }))
      expect([health.live, health.ready, failed(health)]).toEqual([true, false, ['store']])
      expect(health.checks[0]?.detail).toBe(`${state}: no room`)
    }
  })

  it('a store that cannot be opened makes a restart due', async () => {
    const health = await healthOf(source({ store: { state: 'down' } }))
    expect([health.live, health.ready, failed(health)]).toEqual([false, false, ['store']])
  })

  const detail = async (name: string, change: Parameters<typeof source>[0]) => {
    const { ready, checks } = await healthOf(source(change))
    const { state, detail = '' } = checks.find((one) => one.name === name) ?? {}
    return { ready, state, detail }
  }

  it('[OD-30] a bound that is nearly reached is a note, with its setting and, once it is reached, what callers get', async () => {
    expect(await detail('bounds', { sessions: 899 })).toEqual({ ready: true, state: 'ok', detail: 'none is near' })
    expect(await detail('bounds', { sessions: 900 })).toEqual({ ready: true, state: 'note', detail: '900 of 1,000 sessions (sessionsMax)' })
    const both = await detail('bounds', { sessions: 1_000, openTasks: 9_999 })
    expect(both.detail).toBe(
      '1,000 of 1,000 sessions (sessionsMax): callers are asked to wait, then refused with SESSION_BUSY; 9,999 of 10,000 tasks (tasks.openMax)'
    )
  })

  it('records of spaces whose refresh is late, or that many registrars lack, are a note; a few that lack somewhere are usual', async () => {
    expect((await detail('spaces', { upkeep: { records: 9, partial: 9 } })).state).toBeUndefined()
    expect((await detail('spaces', { upkeep: { records: 200, partial: 20 } })).state).toBeUndefined()
    expect((await detail('spaces', { peers: 0, upkeep: { records: 200, partial: 200 } })).state).toBeUndefined()
    expect((await detail('spaces', { upkeep: { records: 200, partial: 21 } })).detail).toMatch(
      /^21 of 200 records of our spaces do not lie/
    )
    const late = await detail('spaces', { upkeep: { records: 9_000, waiting: 4_000, lateMs: 12 * 60_000 } })
    expect([late.ready, late.state]).toEqual([true, 'note'])
    expect(late.detail).toMatch(/^4,000 records of our spaces wait to be put again, the first for 12 min/)
  })

  it('[OD-22] a socket of the network that is dead holds work back, and makes a restart due where only that helps', async () => {
    for (const needs of ['time', 'restart'] as const) {
      const health = await healthOf(source({ broken: { needs, detail: 'QUIC does not answer' } }))
      expect([health.live, health.ready, failed(health)]).toEqual([needs === 'time', false, ['network']])
      expect(health.checks.find(({ name }) => name === 'network')?.detail).toBe('QUIC does not answer')
    }
  })

  it('a door that did not open, and a stop under way, hold work back', async () => {
    expect(failed(await healthOf(source({ httpUrl: undefined })))).toEqual(['a2a'])
    const health = await healthOf(source({ signal: stopping }))
    expect([health.live, health.ready, failed(health)]).toEqual([true, false, ['node']])
  })
})
