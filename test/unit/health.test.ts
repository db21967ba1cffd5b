import { describe, expect, it } from 'vitest'
import type { HostFault } from '../../src/net/host.ts'
import { type Health, type HealthSource, healthOf } from '../../src/ops/health.ts'
import type { StoreState } from '../../src/store/store.ts'

const stopping = AbortSignal.abort(new Error('the node stops'))

function source(
  change: {
    store?: StoreState
    httpUrl?: string | undefined
    signal?: AbortSignal
    peers?: number
    fault?: string
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
    config: { http: { enabled: true } }
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
