import type { Connection, PeerId } from '@libp2p/interface'
import { describe, expect, it } from 'vitest'
import { type TableVerifyInit, verifyByIdentify } from '../../src/net/table-verify.ts'

const peerId = { toString: () => 'peer' } as unknown as PeerId
const NOW_MS = 100_000

function make(init: Partial<TableVerifyInit>) {
  const seen: string[] = []
  const table = {
    safeDispatchEvent: (name: string) => seen.push(name) > 0,
    kb: {
      verify: async () => {
        seen.push('pinged')
        return true
      }
    }
  }
  verifyByIdentify(table, {
    connections: () => [],
    dial: async () => opened(0),
    identified: async () => {},
    nowMs: () => NOW_MS,
    ...init
  })
  return { seen, verify: (signal?: AbortSignal) => table.kb.verify.call(table.kb, ...([{ peerId }, { signal }] as unknown as [])) }
}

function opened(agoMs: number, status: Connection['status'] = 'open'): Connection {
  return { status, timeline: { open: NOW_MS - agoMs } } as unknown as Connection
}

describe('a peer that the table considers', () => {
  it('is dialled where there is no connection, and believed once it has said who it is', async () => {
    const { seen, verify } = make({})
    expect(await verify()).toBe(true)
    expect(seen).toEqual(['peer:ping'])
  })

  it('is believed over a connection that has just opened, and pinged over an older one', async () => {
    const fresh = make({ connections: () => [opened(60_000), opened(9_999)], dial: async () => expect.unreachable() })
    expect(await fresh.verify()).toBe(true)
    expect(fresh.seen).toEqual(['peer:ping'])
    for (const connections of [[opened(10_000)], [opened(1, 'closed')]]) {
      const old = make({ connections: () => connections, dial: async () => expect.unreachable() })
      expect(await old.verify()).toBe(true)
      expect(old.seen).toEqual(['pinged'])
    }
  })

  it('is pinged where nobody asks who it is', async () => {
    const { seen, verify } = make({ identified: () => undefined })
    expect(await verify()).toBe(true)
    expect(seen).toEqual(['pinged'])
  })

  it('has no place where it cannot be reached, lies, or says nothing in time', async () => {
    const unreachable = make({ dial: async () => Promise.reject(new Error('no route')) })
    expect(await unreachable.verify()).toBe(false)
    const liar = make({ identified: () => Promise.reject(new Error('another key')) })
    expect(await liar.verify()).toBe(false)
    const patience = new AbortController()
    const silent = make({ identified: () => new Promise(() => {}) })
    const waiting = silent.verify(patience.signal)
    patience.abort(new Error('too late'))
    expect(await waiting).toBe(false)
    expect([...unreachable.seen, ...liar.seen, ...silent.seen]).toEqual([])
  })
})
