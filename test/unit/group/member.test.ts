import { describe, expect, it } from 'vitest'
import { equals, toHex } from '../../../protocol/bytes.ts'
import { verifyEvidence } from '../../../protocol/evidence/proof.ts'
import { EPOCHS_KEPT, RUN_LOG_OPS_MAX, SNAPSHOT_AFTER_OPS, VECTOR_DELAY_MS } from '../../../protocol/group/bounds.ts'
import { nextRunChain, type RawGroupOp, readGroupOp, runChainStart, runCipher, sealGroupOp } from '../../../protocol/group/group-op.ts'
import type { GroupMember } from '../../../protocol/group/member.ts'
import { encodeOpBody } from '../../../protocol/group/op-body.ts'
import { memberSince, nextStatement } from '../../../protocol/group/statement.ts'
import { ITEM_KINDS } from '../../../protocol/session/items.ts'
import { type EseWrite, encodeEseBatch, eseBatch } from '../../../protocol/state/batch.ts'
import { GroupWorld, type WorldAgent } from '../../support/group-world.ts'

const all = () => true
const set = (key: string, value: number | string): EseWrite[] => [{ op: 'set', key, value }]

/** A group of all agents but the last `out`. */
function groupOf(count: number, { out = 0, seed = 1, shape = all as (a: number, b: number) => boolean } = {}): GroupWorld {
  const world = new GroupWorld(count, seed)
  world.change({})
  world.shape(shape)
  world.change({ add: world.agents.slice(1, count - out).map((agent) => agent.eid), history: 'snapshot' })
  world.settle(5_000)
  return world
}

const coreOf = (agent: WorldAgent): GroupMember => {
  if (agent.core === undefined) throw new Error(`agent ${agent.index} holds no group`)
  return agent.core
}
const sees = (at: WorldAgent, of: WorldAgent, key: string) => at.core?.stateOf(of.eid)?.get(key)

/** An op that an agent signs by hand, under a key that it holds. */
function forged(
  world: GroupWorld,
  writer: WorldAgent,
  { n, before, body, run, epoch }: { n: bigint; before?: Uint8Array; body: Uint8Array; run: Uint8Array; epoch?: number }
): RawGroupOp {
  const at = epoch ?? coreOf(world.owner).statement.epoch
  const held = writer.keysSeen.get(at)
  if (held === undefined) throw new Error('no key')
  const cipher = runCipher(world.crypto, held.dgk, world.gid, writer.eid, run)
  const start = before ?? runChainStart(world.crypto, world.gid, writer.eid, run)
  const { bytes } = sealGroupOp(world.crypto, writer.signer, cipher, { gid: world.gid, epoch: at, writer: writer.eid, run, n }, start, body)
  return readGroupOp(bytes)
}

const change = (writes: EseWrite[]) => encodeOpBody({ kind: 'change', op: encodeEseBatch(eseBatch(writes)) })

describe('a group', () => {
  it('[PSS-04] shows every member what each of them wrote, at once', () => {
    const world = groupOf(4)
    for (const agent of world.agents) world.write(agent, set(`k${agent.index}`, agent.index))
    for (let links = world.waiting; links.length > 0; links = world.waiting) for (const link of links) world.deliver(link)
    for (const at of world.agents) for (const of of world.agents) expect(sees(at, of, `k${of.index}`)).toBe(of.index)
    expect(world.differences()).toEqual([])
  })

  it('[PSS-04] converges as a ring of five, each member linked to two others only', () => {
    const world = groupOf(5, { shape: (a, b) => Math.abs(a - b) === 1 || Math.abs(a - b) === 4 })
    for (const agent of world.agents) for (let i = 0; i < 20; i++) world.write(agent, set(`k${i % 7}`, i * 10 + agent.index))
    world.settle(10_000)
    expect(world.differences()).toEqual([])
    expect(sees(world.agent(0), world.agent(2), 'k5')).toBe(192)
  })

  it('[PSS-07] brings two members together whose direct link is down, by way of a third', () => {
    const world = groupOf(3)
    const [, b, c] = world.agents as [WorldAgent, WorldAgent, WorldAgent]
    world.cut(b, c)
    world.write(b, set('from', 'b'))
    world.write(c, set('from', 'c'))
    world.settle(2_000)
    expect(sees(c, b, 'from')).toBe('b')
    expect(sees(b, c, 'from')).toBe('c')
    expect(world.differences()).toEqual([])
  })

  it('[PSS-04] sends each op once to each member where all are linked', () => {
    const world = groupOf(6)
    const before = world.sent.ops
    for (const agent of world.agents) world.write(agent, set('k', agent.index))
    world.settle(30_000)
    // a snapshot that begins the run, and the change
    expect(world.sent.ops - before).toBe(6 * 2 * 5)
  })

  it('[PSS-07] asks one member only for what it missed', () => {
    const world = groupOf(5)
    const late = world.agent(4)
    const writer = world.agent(1)
    world.shape((a, b) => a !== 4 && b !== 4)
    for (let i = 0; i < 50; i++) world.write(writer, set(`k${i}`, i))
    world.settle(1_000)
    const before = world.sent.ops
    world.shape((a, b) => !(a === 1 && b === 4))
    world.settle(20_000)
    expect(sees(late, writer, 'k49')).toBe(49)
    expect(world.sent.ops - before).toBe(51)
  })
})

describe('a member that leaves', () => {
  it('[PSS-24] [D-31] reads nothing of what is written after its removal, and what it held is overwritten', () => {
    const world = groupOf(4)
    const gone = world.agent(3)
    world.write(world.agent(1), set('before', 1))
    world.settle(1_000)
    const core = coreOf(gone)
    const buffer = core.stateOf(world.agent(1).eid)?.held('before')
    world.change({ remove: [gone.eid] })
    world.settle(1_000)
    world.write(world.agent(1), set('after', 2))
    world.write(world.agent(2), set('after', 3))
    world.settle(10_000)
    expect(gone.core).toBeUndefined()
    expect(core.isRemoved).toBe(true)
    expect([...(buffer as Uint8Array)].every((byte) => byte === 0)).toBe(true)
    expect(core.keysHeld).toBe(0)
    expect(world.leaks()).toEqual([])
    const { epoch } = coreOf(world.owner).statement
    expect([...world.ops.values()].filter((bytes) => readGroupOp(bytes).epoch === epoch)).not.toHaveLength(0)
  })

  it('[PSS-24] takes its state along: nobody holds it any more', () => {
    const world = groupOf(4)
    const gone = world.agent(3)
    world.write(gone, set('mine', 1))
    world.settle(1_000)
    expect(sees(world.agent(1), gone, 'mine')).toBe(1)
    world.change({ remove: [gone.eid] })
    world.settle(5_000)
    expect(coreOf(world.agent(1)).stateOf(gone.eid)).toBeUndefined()
    expect(world.agent(1).events.some((event) => event.kind === 'erased' && equals(event.writer, gone.eid))).toBe(true)
  })

  it('[PSS-24] begins anew when it is invited again: nothing of its first membership counts', () => {
    const world = groupOf(3)
    const back = world.agent(2)
    world.write(back, set('old', 1))
    world.settle(1_000)
    world.cut(world.agent(1), back) // the other one misses the removal
    world.cut(world.agent(1), world.owner)
    world.change({ remove: [back.eid] })
    world.settle(1_000)
    world.change({ add: [back.eid], history: 'snapshot' })
    world.settle(1_000)
    world.shape(all)
    world.settle(10_000)
    expect(sees(world.agent(1), back, 'old')).toBeUndefined() // though it held it all the while
    world.write(back, set('new', 2))
    world.settle(1_000)
    expect(sees(world.agent(1), back, 'old')).toBeUndefined()
    expect(sees(world.agent(1), back, 'new')).toBe(2)
    expect(world.differences()).toEqual([])
  })

  it('[PSS-24] is told nothing but its removal when it comes back later', () => {
    const world = groupOf(3)
    const gone = world.agent(2)
    world.shape((a, b) => a !== 2 && b !== 2)
    world.change({ remove: [gone.eid] })
    world.settle(2_000)
    const before = { ...world.sent }
    world.shape(all)
    world.settle(10_000)
    expect(gone.core).toBeUndefined()
    expect(world.sent.ops).toBe(before.ops)
    expect(world.leaks()).toEqual([])
  })
})

describe('a member that is new', () => {
  it('[PSS-24] sees nothing of what was written before, unless it is given it', () => {
    const world = groupOf(4, { out: 1 })
    const fresh = world.agent(3)
    world.write(world.agent(1), set('before', 1))
    world.settle(1_000)
    world.change({ add: [fresh.eid] })
    world.settle(20_000)
    expect(fresh.core).toBeDefined()
    expect(coreOf(fresh).stateOf(world.agent(1).eid)).toBeUndefined()
    expect(world.leaks()).toEqual([])
    // who begins to write from here on is seen whole
    world.write(world.agent(2), set('after', 2))
    world.settle(1_000)
    expect(sees(fresh, world.agent(2), 'after')).toBe(2)
  })

  it('[PSS-24] sees the state as it is when its invitation says so, also of writers who hear of it late', () => {
    const world = groupOf(4, { out: 1 })
    const fresh = world.agent(3)
    world.write(world.agent(1), set('before', 1))
    world.settle(1_000)
    world.shape((a, b) => a !== 1 && b !== 1)
    world.change({ add: [fresh.eid], history: 'snapshot' })
    world.change({})
    world.settle(1_000)
    world.shape(all)
    world.settle(10_000)
    expect(sees(fresh, world.agent(1), 'before')).toBe(1)
    expect(world.differences()).toEqual([])
    expect(world.leaks()).toEqual([])
  })

  it('[PSS-24] may learn of its membership, and get the key, from any member', () => {
    const world = groupOf(4, { out: 1 })
    const fresh = world.agent(3)
    world.cut(world.owner, fresh)
    world.change({ add: [fresh.eid], history: 'snapshot' })
    world.settle(10_000)
    expect(coreOf(fresh).canWrite).toBe('yes')
    expect(coreOf(fresh).statement.epoch).toBe(coreOf(world.owner).statement.epoch)
  })
})

describe('what members tell each other', () => {
  it('[PSS-07] brings a newer list to a member that does not know the one who has it', () => {
    const world = groupOf(4, { out: 1 })
    const [, behind, , fresh] = world.agents as [WorldAgent, WorldAgent, WorldAgent, WorldAgent]
    world.shape((a, b) => a !== 1 && b !== 1)
    world.change({ add: [fresh.eid], history: 'snapshot' })
    world.settle(2_000)
    world.shape((a, b) => a === 1 && b === 3)
    world.settle(5_000)
    expect(coreOf(behind).statement.epoch).toBe(coreOf(world.owner).statement.epoch)
    world.write(behind, set('k', 1))
    world.settle(2_000)
    expect(sees(fresh, behind, 'k')).toBe(1)
  })

  it('[PSS-07] counts, of two runs of a writer, the one that started later, whichever comes first', () => {
    const world = groupOf(3)
    const [, writer, reader] = world.agents as [WorldAgent, WorldAgent, WorldAgent]
    const begin = (started: number) =>
      forged(world, writer, { n: 1n, run: world.random(16), body: encodeOpBody({ kind: 'snapshot', started, state: emptyState() }) })
    const [early, late, later] = [begin(8e12), begin(9e12), begin(9.5e12)]
    const take = (op: RawGroupOp) => coreOf(reader).takeOp(writer.eid, op, world.nowMs)
    const run = () =>
      toHex(
        coreOf(reader)
          .vector()
          .find((one) => equals(one.writer, writer.eid))?.run as Uint8Array
      )
    expect([take(late), take(early)]).toEqual(['taken', 'passed-over'])
    expect(run()).toBe(toHex(late.run))
    expect(take(later)).toBe('taken')
    expect(run()).toBe(toHex(later.run))
    expect([take(late), take(early)]).toEqual(['passed-over', 'passed-over'])
  })
})

describe('keys', () => {
  it('[PSS-23] change with every statement; what is written later is sealed under the new one, by all', () => {
    const world = groupOf(3)
    const { epoch } = coreOf(world.owner).statement
    world.change({})
    world.settle(1_000)
    const before = world.ops.size
    for (const agent of world.agents) world.write(agent, set('k', 1))
    const written = [...world.ops.values()].slice(before).map((bytes) => readGroupOp(bytes).epoch)
    expect(new Set(written)).toEqual(new Set([epoch + 1]))
  })

  it('[PSS-23] of old epochs open what is late, and seal nothing: a writer that goes back to one is followed no further', () => {
    const world = groupOf(3)
    const [, writer, reader] = world.agents as [WorldAgent, WorldAgent, WorldAgent]
    const { epoch } = coreOf(world.owner).statement
    const run = world.random(16)
    const first = forged(world, writer, { n: 1n, run, body: encodeOpBody({ kind: 'snapshot', started: 9e12, state: emptyState() }) })
    world.change({})
    world.settle(1_000)
    expect(coreOf(reader).takeOp(writer.eid, first, world.nowMs)).toBe('taken') // late, and sealed under the epoch before
    const second = forged(world, writer, { n: 2n, run, before: first.gn, body: change(set('k', 1)) })
    expect(coreOf(reader).takeOp(writer.eid, second, world.nowMs)).toBe('taken')
    const back = forged(world, writer, { n: 3n, run, before: second.gn, body: change(set('k', 2)), epoch })
    expect(coreOf(reader).takeOp(writer.eid, back, world.nowMs)).toBe('passed-over')
    expect(sees(reader, writer, 'k')).toBe(1)
    expect(
      coreOf(reader)
        .takeEvents()
        .map(({ kind }) => kind)
    ).toContain('fault')
  })

  it('[PSS-23] of more than 32 epochs are not held: the oldest are overwritten', () => {
    const world = groupOf(2)
    for (let i = 0; i < EPOCHS_KEPT + 5; i++) world.change({})
    world.settle(1_000)
    expect(coreOf(world.owner).keysHeld).toBe(EPOCHS_KEPT)
    expect(coreOf(world.agent(1)).keysHeld).toBe(EPOCHS_KEPT)
  })

  it('[PSS-23] never seal two ops of a writer under one key and number, however often it starts', () => {
    const world = groupOf(3)
    const writer = world.agent(1)
    for (let start = 0; start < 4; start++) {
      for (let i = 0; i < 5; i++) world.write(writer, set('k', start * 10 + i))
      world.settle(100)
      world.crash(writer)
      world.start(writer)
      world.shape(all)
      world.settle(5_000)
    }
    const places = [...world.ops.values()].map((bytes) => {
      const { epoch, writer: who, run, n } = readGroupOp(bytes)
      return `${epoch}/${toHex(who)}/${toHex(run)}/${n}`
    })
    expect(new Set(places).size).toBe(places.length)
    expect(new Set([...world.ops.values()].map((bytes) => toHex(readGroupOp(bytes).run))).size).toBeGreaterThanOrEqual(4)
  })

  it('[PSS-24] come from the owner alone: a member cannot put another list or another key in its place', () => {
    const world = groupOf(3)
    const [, thief, other] = world.agents as [WorldAgent, WorldAgent, WorldAgent]
    const before = coreOf(other).statement
    const dgk = world.random(32)
    const stolen = nextStatement(world.crypto, thief.signer, before, { remove: [] }, { dgk, tsSec: 1 })
    expect(() => coreOf(other).takeKey({ statement: stolen, dgk }, world.nowMs)).toThrow(/owner/)
    expect(coreOf(other).statement.epoch).toBe(before.epoch)
  })
})

describe('a member that restarts', () => {
  it('[PSS-07] has its own state back from the others, goes on from it, and everybody follows', () => {
    const world = groupOf(3)
    const writer = world.agent(1)
    for (let i = 0; i < 5; i++) world.write(writer, set(`k${i}`, i))
    world.settle(1_000)
    world.crash(writer)
    world.start(writer)
    world.shape(all)
    world.settle(10_000)
    expect(sees(writer, writer, 'k4')).toBe(4)
    world.write(writer, set('k5', 5))
    world.settle(1_000)
    expect(sees(world.agent(2), writer, 'k0')).toBe(0)
    expect(sees(world.agent(2), writer, 'k5')).toBe(5)
    expect(world.differences()).toEqual([])
  })

  it('[PSS-23] has no key on its disk, and writes nothing until it was given the one that is in force', () => {
    const world = groupOf(3)
    const writer = world.agent(1)
    world.crash(writer)
    world.start(writer)
    expect(coreOf(writer).canWrite).toBe('no-key')
    expect(world.write(writer, set('k', 1))).toBe('refused')
    world.shape(all)
    world.settle(2_000)
    expect(world.write(writer, set('k', 1))).toBe('written')
  })

  it('[PSS-23] being the owner, puts a new key in force', () => {
    const world = groupOf(3)
    const { epoch } = coreOf(world.owner).statement
    world.crash(world.owner)
    world.start(world.owner)
    world.shape(all)
    world.settle(2_000)
    expect(coreOf(world.agent(2)).statement.epoch).toBe(epoch + 1)
    expect(world.differences()).toEqual([])
  })
})

describe('a writer that tells two histories', () => {
  it('[PSS-24] is proven to, whoever holds one and meets the other', () => {
    const world = groupOf(4)
    const [, liar, one, two] = world.agents as [WorldAgent, WorldAgent, WorldAgent, WorldAgent]
    const run = world.random(16)
    const begin = forged(world, liar, { n: 1n, run, body: encodeOpBody({ kind: 'snapshot', started: 9e12, state: emptyState() }) })
    const left = forged(world, liar, { n: 2n, run, before: begin.gn, body: change(set('k', 'left')) })
    const right = forged(world, liar, { n: 2n, run, before: begin.gn, body: change(set('k', 'right')) })
    const more = forged(world, liar, { n: 3n, run, before: right.gn, body: change(set('k', 'more')) })
    for (const op of [begin, left]) world.receive(one, liar, { kind: ITEM_KINDS.groupOp, payload: op.bytes })
    for (const op of [begin, right, more]) world.receive(two, liar, { kind: ITEM_KINDS.groupOp, payload: op.bytes })
    world.settle(20_000)
    const proofs = world.agents.flatMap(({ events }) => events.flatMap((event) => (event.kind === 'fork' ? [event.evidence] : [])))
    expect(proofs.length).toBeGreaterThan(0)
    for (const proof of proofs) {
      verifyEvidence(world.crypto, proof)
      expect(equals(proof.target, liar.eid)).toBe(true)
    }
  })

  it('[PSS-24] finds no belief for an op of somebody else, of a stranger, or of a chain that does not begin', () => {
    const world = groupOf(4, { out: 1 })
    const [, writer, reader, stranger] = world.agents as [WorldAgent, WorldAgent, WorldAgent, WorldAgent]
    const run = world.random(16)
    const body = encodeOpBody({ kind: 'snapshot', started: 9e12, state: emptyState() })
    const { epoch } = coreOf(world.owner).statement
    stranger.keysSeen.set(epoch, writer.keysSeen.get(epoch) as never) // the key leaked, and is of no use to write with
    const strange = forged(world, stranger, { n: 1n, run, body })
    expect(coreOf(reader).takeOp(writer.eid, strange, world.nowMs)).toBe('passed-over')
    const copy = forged(world, stranger, { n: 1n, run, body }).bytes.slice()
    copy.set(writer.eid, 20)
    expect(coreOf(reader).takeOp(writer.eid, readGroupOp(copy), world.nowMs)).toBe('passed-over')
    const astray = forged(world, writer, { n: 1n, run: world.random(16), before: world.random(32), body })
    expect(coreOf(reader).takeOp(writer.eid, astray, world.nowMs)).toBe('passed-over')
    const begin = forged(world, writer, { n: 1n, run, body })
    const unsigned = begin.bytes.slice()
    unsigned[120] = (unsigned[120] as number) ^ 1
    expect(coreOf(reader).takeOp(writer.eid, readGroupOp(unsigned), world.nowMs)).toBe('passed-over')
    expect(coreOf(reader).stateOf(writer.eid)).toBeUndefined()
    expect(coreOf(reader).takeOp(writer.eid, begin, world.nowMs)).toBe('taken')
    const elsewhere = forged(world, writer, { n: 2n, run, before: world.random(32), body: change(set('k', 1)) })
    expect(coreOf(reader).takeOp(writer.eid, elsewhere, world.nowMs)).toBe('passed-over')
    expect(sees(reader, writer, 'k')).toBeUndefined()
  })
})

describe('what a writer can make others hold', () => {
  it('[PSS-23] is let go by its own snapshots: an honest log stays short', () => {
    const world = groupOf(2)
    const writer = world.agent(1)
    for (let i = 0; i < SNAPSHOT_AFTER_OPS + 50; i++) world.write(writer, set('k', i))
    world.settle(2_000)
    const held = coreOf(world.owner)
      .vector()
      .find((one) => equals(one.writer, writer.eid))
    expect(held?.logLength).toBeLessThan(100)
    expect(sees(world.owner, writer, 'k')).toBe(SNAPSHOT_AFTER_OPS + 49)
  })

  it('[PSS-23] ends at 4,096 ops without one: it is followed no further', () => {
    const world = groupOf(2)
    const [reader, writer] = world.agents as [WorldAgent, WorldAgent]
    const run = world.random(16)
    let op = forged(world, writer, { n: 1n, run, body: encodeOpBody({ kind: 'snapshot', started: 9e12, state: emptyState() }) })
    coreOf(reader).takeOp(writer.eid, op, world.nowMs)
    let taken = 1
    for (let n = 2n; n <= BigInt(RUN_LOG_OPS_MAX) + 3n; n++) {
      op = forged(world, writer, { n, run, before: op.gn, body: change(set('k', Number(n))) })
      if (coreOf(reader).takeOp(writer.eid, op, world.nowMs) === 'taken') taken++
    }
    expect(taken).toBe(RUN_LOG_OPS_MAX)
    expect(nextRunChain(world.crypto, op.gn, 1n, op.sealed)).toHaveLength(32)
  }, 30_000)

  it('[PSS-04] is told to others together: many changes make one vector', () => {
    const world = groupOf(3)
    const items = world.sent.items
    for (let i = 0; i < 30; i++) world.write(world.agent(1), set('k', i))
    world.settle(VECTOR_DELAY_MS + 50)
    // 31 ops to each of two, and at most a few vectors on each of six directed links
    expect(world.sent.items - items).toBeLessThan(62 + 6 * 3)
    expect(memberSince(coreOf(world.owner).statement, world.agent(1).eid)).toBe(2)
  })
})

/** A state of no entries, as a snapshot carries it: one batch that clears. */
function emptyState(): Uint8Array {
  const batch = encodeEseBatch(eseBatch([], { clear: true }))
  const bytes = new Uint8Array(4 + batch.length)
  new DataView(bytes.buffer).setUint32(0, batch.length)
  bytes.set(batch, 4)
  return bytes
}
