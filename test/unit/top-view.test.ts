import { stripVTControlCharacters } from 'node:util'
import picocolors from 'picocolors'
import { describe, expect, it } from 'vitest'
import type { SessionLine, VitalsResult } from '../../src/api/operator-methods.ts'
import { ratesOf, sorted, topLines } from '../../src/cli/top-view.ts'

const session = (i: number, more: Partial<SessionLine> = {}): SessionLine => ({
  id: `${i}`.padStart(8, '0').padEnd(32, 'f'),
  local: `did:key:z6MkLocal${i}aaaaaaaaaaaaaaaaaaaaaaaaaaaa`,
  remote: `did:key:z6MkRemote${i}bbbbbbbbbbbbbbbbbbbbbbbbbbb`,
  state: 'established',
  transport: 'quic',
  txSeq: String(i * 10),
  rxSeq: String(i),
  unacked: 0,
  resumes: 0,
  openedAtMs: 1_000,
  activeAtMs: 100_000 - i * 1_000,
  ...more
})

const vitals = (more: Partial<VitalsResult> = {}): VitalsResult => ({
  node: { peer: '12D3KooWExamplePeerIdOfThisNode0123456789', version: '0.1.0', pid: 42 },
  atMs: 100_000,
  monotonicMs: 50_000,
  uptimeMs: 3_600_000,
  peers: 3,
  routingTableSize: 7,
  sessions: { live: 1, disconnected: 1 },
  tasks: {
    byState: { pending: 2, claimed: 1, 'input-required': 1, 'auth-required': 0, done: 40, failed: 1, canceled: 0, rejected: 0 },
    created: 45,
    ended: 41
  },
  queued: { messages: 5, bytes: 2_048 },
  outbox: { messages: 4, waiting: 2, bytes: 512 },
  sent: { messages: 100, bytes: 1_048_576 },
  memory: { rssBytes: 104_857_600, heapUsedBytes: 52_428_800, heapTotalBytes: 62_914_560 },
  cpu: 0.25,
  eventLoop: { meanMs: 0.4, p99Ms: 3.1, maxMs: 12, utilization: 0.3 },
  agents: [{ name: 'bob', mode: 'always_on', handler: '/opt/agents/bob.mjs', now: 'accepts', queue: { messages: 0, bytes: 0 } }],
  sessionList: [session(1), session(2, { state: 'disconnected', unacked: 3 })],
  ...more
})

const plain = picocolors.createColors(false)
const choice = { sort: 'active', at: 0 } as const

describe('the view of `rookery top`', () => {
  it('tells peers, sessions, tasks a second, queues, memory and event loop, then agents and sessions', () => {
    const now = vitals()
    const before = vitals({
      monotonicMs: 48_000,
      tasks: { ...now.tasks, created: 25, ended: 31 },
      sent: { messages: 90, bytes: 1_046_528 }
    })
    expect(topLines(now, ratesOf(before, now), { paint: plain, columns: 120, choice })).toMatchInlineSnapshot(`
      [
        "rookery top  12D3KooW…456789  v0.1.0  pid 42  up 60 min",
        "",
        "network   3 peers, 7 in the routing table, sent 1.0 KiB/s, 1.0 MiB in all",
        "sessions  1 live, 1 disconnected",
        "tasks     2 waiting, 1 working, 1 need an answer, 40 done, 1 failed",
        "          10.0 new/s, 5.0 ended/s; 45 new and 41 ended since the start",
        "queues    5 in queues (2.0 KiB), 2 of 4 in the outbox not delivered",
        "process   [|||.......] 25 % CPU, 100.0 MiB memory (50.0 MiB heap)",
        "loop      [|||.......] 30 % busy, delay 0.4 ms mean, 3.1 ms p99, 12 ms max",
        "",
        "AGENT  STATE       MODE       HANDLER  QUEUE",
        "bob    takes work  always_on  bob.mjs  0 (0 B)",
        "",
        "SESSION   OURS             THEIRS           STATE         SENT  RECEIVED  OPEN  RESUMED  ACTIVE",
        "00000001  z6MkLoca…aaaaaa  z6MkRemo…bbbbbb  established   10    1         0     0        1 s ago",
        "00000002  z6MkLoca…aaaaaa  z6MkRemo…bbbbbb  disconnected  20    2         3     0        2 s ago",
      ]
    `)
  })

  it('has nothing to compare after one reading, or with another process', () => {
    expect(ratesOf(undefined, vitals())).toBeUndefined()
    expect(ratesOf(vitals({ node: { peer: 'x', version: '0.1.0', pid: 7 }, monotonicMs: 1 }), vitals())).toBeUndefined()
    expect(ratesOf(vitals(), vitals())).toBeUndefined()
    expect(topLines(vitals(), undefined, { paint: plain, columns: 120, choice }).join('\n')).toContain('- new/s, - ended/s')
  })

  it('fits every size of a terminal, keeps the marked session in sight, and says how many rows are left out', () => {
    const many = vitals({ sessionList: Array.from({ length: 60 }, (_, i) => session(i)) })
    const coloured = picocolors.createColors(true)
    for (const columns of [20, 80, 200]) {
      for (const rows of [3, 10, 24, 60]) {
        for (const at of [0, 30, 59]) {
          const lines = topLines(many, undefined, { paint: coloured, columns, rows, choice: { sort: 'active', at } })
          expect(lines.length).toBeLessThanOrEqual(rows)
          for (const line of lines) expect(stripVTControlCharacters(line).length).toBeLessThanOrEqual(columns)
          if (rows >= 24 && columns === 200) expect(lines.join('\n')).toContain(String(at).padStart(8, '0'))
        }
      }
    }
    const shown = topLines(many, undefined, { paint: plain, columns: 120, rows: 24, choice })
    expect(shown.at(-2)).toMatch(/^… \d+ more$/)
    expect(shown.at(-1)).toContain('q quit')
  })

  it('sorts by use, numbers and names, and never by chance', () => {
    const list = [session(1, { txSeq: '9' }), session(2, { txSeq: '10' }), session(3, { txSeq: '10', unacked: 5 })]
    expect(sorted(list, 'sent').map(({ id }) => Number(id.slice(0, 8)))).toEqual([2, 3, 1])
    expect(sorted(list, 'unacked').map(({ id }) => Number(id.slice(0, 8)))).toEqual([3, 1, 2])
    expect(sorted(list, 'received').map(({ id }) => Number(id.slice(0, 8)))).toEqual([3, 2, 1])
    expect(sorted(list, 'agent').map(({ id }) => Number(id.slice(0, 8)))).toEqual([1, 2, 3])
    expect(sorted(list, 'active').map(({ id }) => Number(id.slice(0, 8)))).toEqual([1, 2, 3])
  })

  it('writes no control character that an agent’s name brings', () => {
    const lines = topLines(
      vitals({
        agents: [{ name: 'x\u001b[2Jy\u202e', mode: 'always_on', handler: 'echo', now: 'asleep', queue: { messages: 0, bytes: 0 } }]
      }),
      undefined,
      { paint: plain, columns: 120, choice }
    )
    for (const steering of ['\u001b', '\u202e']) expect(lines.join('\n')).not.toContain(steering)
    expect(lines.join('\n')).toContain('asleep')
  })
})
