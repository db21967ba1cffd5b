import { equals, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider, Signer } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import { GROUP_OP_HEAD_BYTES } from '../../protocol/evidence/group-op-head.ts'
import { type GroupKey, openGroupKey } from '../../protocol/group/group-key.ts'
import { openGroupOp, readGroupOp, runCipher } from '../../protocol/group/group-op.ts'
import { decodeGroupVector, decodeGroupWant, encodeGroupVector, GROUP_LIVE } from '../../protocol/group/group-vector.ts'
import { type GroupEvent, type GroupItem, GroupMember } from '../../protocol/group/member.ts'
import { memberSince, nextStatement, openStatement, type SignedStatement, type TrustChange } from '../../protocol/group/statement.ts'
import { type Eid, eid, eidHex } from '../../protocol/identity/eid.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { type EseWrite, eseBatch } from '../../protocol/state/batch.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'

/** Signatures that were checked once are not computed again: all members of a world live in one process. */
export function cachingCrypto(): CryptoProvider {
  const verdicts = new Map<string, boolean>()
  return {
    ...nodeCrypto,
    ed25519: {
      ...nodeCrypto.ed25519,
      verify(key, message, signature) {
        const name = `${toHex(signature)}${toHex(nodeCrypto.sha256(key, message))}`
        let verdict = verdicts.get(name)
        if (verdict === undefined) {
          verdict = nodeCrypto.ed25519.verify(key, message, signature)
          verdicts.set(name, verdict)
        }
        return verdict
      }
    }
  }
}

/** Bytes that differ at every call and are the same in every run of one seed. */
export function seededBytes(seed: number): (length: number) => Uint8Array {
  let count = 0
  return (length) => {
    const name = new Uint8Array(8)
    new DataView(name.buffer).setUint32(0, seed)
    new DataView(name.buffer).setUint32(4, count++)
    return nodeCrypto.sha256(name).slice(0, length)
  }
}

export interface WorldAgent {
  readonly index: number
  readonly signer: Signer
  readonly eid: Eid
  core: GroupMember | undefined
  isUp: boolean
  /** survives a crash: the newest statement, without any key */
  disk: SignedStatement | undefined
  starts: number
  /** every key that anyone ever sent it, by epoch */
  readonly keysSeen: Map<number, { statement: SignedStatement; dgk: Uint8Array }>
  readonly events: GroupEvent[]
}

/**
 * Agents, links between them and one group, without sockets and clocks: links are first in, first out, lose what is on its way when they are cut, and
 * deliver in the order that the test chooses. Agent 0 owns the group.
 */
export class GroupWorld {
  readonly crypto: CryptoProvider
  readonly agents: WorldAgent[]
  readonly random: (length: number) => Uint8Array
  readonly gid: Uint8Array
  /** every op that left anyone, by the bytes of its head */
  readonly ops = new Map<string, Uint8Array>()
  nowMs = 1_000_000
  sent = { items: 0, bytes: 0, ops: 0 }
  /** by "from>to" */
  readonly #queues = new Map<string, GroupItem[]>()
  readonly #up = new Set<string>()

  constructor(count: number, seed: number, crypto: CryptoProvider = cachingCrypto()) {
    this.crypto = crypto
    this.random = seededBytes(seed)
    this.gid = this.random(16)
    this.agents = Array.from({ length: count }, (_, index) => {
      const secret = nodeCrypto.sha256(Uint8Array.of(index, 0x67))
      const publicKey = nodeCrypto.ed25519.publicKey(secret)
      return {
        index,
        signer: { publicKey, sign: (message: Uint8Array) => nodeCrypto.ed25519.sign(secret, message) },
        eid: eid(publicKey),
        core: undefined,
        isUp: true,
        disk: undefined,
        starts: 0,
        keysSeen: new Map(),
        events: []
      }
    })
  }

  agent(index: number): WorldAgent {
    return this.agents[index % this.agents.length] as WorldAgent
  }

  get owner(): WorldAgent {
    return this.agent(0)
  }

  // ── the owner ──

  /** The owner's next statement: on its disk first, then in force. */
  change(change: TrustChange): void {
    const { owner } = this
    if (!owner.isUp) return
    const before = owner.core?.statement ?? owner.disk ?? { gid: this.gid, name: 'world' }
    const dgk = this.random(32)
    const statement = nextStatement(this.crypto, owner.signer, before, change, { dgk, tsSec: Math.floor(this.nowMs / 1_000) })
    owner.disk = statement
    this.#give(owner, { statement, dgk })
    this.pump(owner)
  }

  #give(agent: WorldAgent, key: GroupKey): void {
    if (key.dgk !== undefined) agent.keysSeen.set(key.statement.epoch, { statement: key.statement, dgk: key.dgk.slice() })
    if (agent.core === undefined) {
      if (key.dgk === undefined || memberSince(key.statement, agent.eid) === undefined) return
      this.#open(agent, key)
    } else agent.core.takeKey(key, this.nowMs)
  }

  #open(agent: WorldAgent, first: GroupKey): void {
    agent.core = new GroupMember({
      crypto: this.crypto,
      signer: agent.signer,
      first,
      newRun: () => this.random(16),
      startedMs: this.nowMs + agent.starts++
    })
    agent.disk = first.statement
    for (const other of this.agents) if (this.isLinked(agent, other)) agent.core.linkUp(other.eid, this.nowMs)
  }

  // ── links ──

  isLinked(a: WorldAgent, b: WorldAgent): boolean {
    return this.#up.has(`${Math.min(a.index, b.index)}-${Math.max(a.index, b.index)}`)
  }

  link(a: WorldAgent, b: WorldAgent): void {
    if (a === b || this.isLinked(a, b) || !a.isUp || !b.isUp) return
    this.#up.add(`${Math.min(a.index, b.index)}-${Math.max(a.index, b.index)}`)
    this.#queues.set(`${a.index}>${b.index}`, [])
    this.#queues.set(`${b.index}>${a.index}`, [])
    a.core?.linkUp(b.eid, this.nowMs)
    b.core?.linkUp(a.eid, this.nowMs)
    this.pump(a)
    this.pump(b)
  }

  cut(a: WorldAgent, b: WorldAgent): void {
    if (!this.isLinked(a, b)) return
    this.#up.delete(`${Math.min(a.index, b.index)}-${Math.max(a.index, b.index)}`)
    this.#queues.delete(`${a.index}>${b.index}`)
    this.#queues.delete(`${b.index}>${a.index}`)
    a.core?.linkDown(b.eid, this.nowMs)
    b.core?.linkDown(a.eid, this.nowMs)
  }

  /** Links every two agents that run and that `together` lets be linked; cuts the others. */
  shape(together: (a: number, b: number) => boolean): void {
    for (const a of this.agents) {
      for (const b of this.agents) {
        if (a.index >= b.index) continue
        if (together(a.index, b.index)) this.link(a, b)
        else this.cut(a, b)
      }
    }
  }

  // ── crashes ──

  crash(agent: WorldAgent): void {
    if (!agent.isUp) return
    for (const other of this.agents) this.cut(agent, other)
    agent.isUp = false
    agent.core = undefined
  }

  start(agent: WorldAgent): void {
    if (agent.isUp) return
    agent.isUp = true
    if (agent.disk === undefined) return
    if (agent === this.owner) this.change({})
    else this.#open(agent, { statement: agent.disk, dgk: undefined })
  }

  // ── writing ──

  write(agent: WorldAgent, writes: readonly EseWrite[]): 'written' | 'refused' {
    if (agent.core?.canWrite !== 'yes') return 'refused'
    agent.core.write(eseBatch(writes), this.nowMs)
    this.pump(agent)
    return 'written'
  }

  // ── time and delivery ──

  /** Puts what an agent has to say on its links. */
  pump(agent: WorldAgent): void {
    const { core } = agent
    if (core === undefined) return
    core.tick(this.nowMs)
    for (const other of this.agents) {
      const queue = this.#queues.get(`${agent.index}>${other.index}`)
      if (queue === undefined) continue
      for (;;) {
        const items = core.outbox(other.eid, this.nowMs, { itemsMax: 64, bytesMax: 262_144 })
        if (items.length === 0) break
        for (const item of items) this.#tap(item)
        queue.push(...items)
      }
    }
    this.#take(agent)
  }

  #tap({ kind, payload }: GroupItem): void {
    this.sent.items++
    this.sent.bytes += payload.length
    if (kind !== ITEM_KINDS.groupOp) return
    this.sent.ops++
    this.ops.set(toHex(payload.subarray(0, GROUP_OP_HEAD_BYTES)), payload)
  }

  #take(agent: WorldAgent): void {
    const { core } = agent
    if (core === undefined) return
    for (const event of core.takeEvents()) {
      agent.events.push(event)
      if (event.kind === 'statement') agent.disk = event.statement
      if (event.kind === 'removed') {
        agent.core = undefined
        agent.disk = undefined
      }
    }
  }

  get waiting(): string[] {
    return [...this.#queues].filter(([, queue]) => queue.length > 0).map(([name]) => name)
  }

  /** Delivers the oldest item of one link. */
  deliver(link: string): void {
    const item = this.#queues.get(link)?.shift()
    const [from, to] = link.split('>').map((index) => this.agent(Number(index))) as [WorldAgent, WorldAgent]
    if (item !== undefined) this.receive(to, from, item)
  }

  /** What an agent's node does with an item on the groups' channel. */
  receive(to: WorldAgent, from: WorldAgent, { kind, payload }: GroupItem): void {
    try {
      this.#receive(to, from, kind, payload)
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
    }
    this.pump(to)
  }

  #receive(to: WorldAgent, from: WorldAgent, kind: number, payload: Uint8Array): void {
    if (kind === ITEM_KINDS.groupKey) this.#give(to, openGroupKey(this.crypto, payload))
    else if (kind === ITEM_KINDS.groupOp) to.core?.takeOp(from.eid, readGroupOp(payload), this.nowMs)
    else if (payload[0] === GROUP_LIVE.want) to.core?.takeWant(from.eid, decodeGroupWant(payload))
    else {
      const vector = decodeGroupVector(payload)
      if (to.core !== undefined) to.core.takeVector(from.eid, vector, this.nowMs)
      else if (vector.epoch > 0) {
        const nothing = encodeGroupVector({ gid: vector.gid, epoch: 0, keys: 0, runs: [] })
        this.#queues.get(`${to.index}>${from.index}`)?.push({ kind, payload: nothing })
      }
    }
  }

  /** Delivers everything, lets what is due happen, and moves the clock on, until `ms` have passed. */
  settle(ms: number): void {
    const untilMs = this.nowMs + ms
    for (;;) {
      for (let links = this.waiting; links.length > 0; links = this.waiting) for (const link of links) this.deliver(link)
      let next = Number.POSITIVE_INFINITY
      for (const { core } of this.agents) next = Math.min(next, core?.wakeAtMs ?? Number.POSITIVE_INFINITY)
      if (next > untilMs) break
      this.nowMs = Math.max(this.nowMs + 1, next)
      for (const agent of this.agents) this.pump(agent)
    }
    this.nowMs = untilMs
  }

  // ── what must be true ──

  /** Members of the owner's newest statement that run. */
  get members(): WorldAgent[] {
    const { statement } = this.owner.core as GroupMember
    return this.agents.filter((agent) => agent.isUp && memberSince(statement, agent.eid) !== undefined)
  }

  /** Everything that an agent sees, in words that can be compared. */
  static view(core: GroupMember): Record<string, unknown> {
    const view: Record<string, unknown> = {}
    for (const { eid: member } of core.statement.members) {
      const state = core.stateOf(member)
      if (state !== undefined)
        view[toHex(member).slice(0, 8)] = Object.fromEntries([...state.keys()].sort().map((key) => [key, state.get(key)]))
    }
    return view
  }

  /** In how many ways members who can reach each other differ; empty: they agree. */
  differences(): string[] {
    const found: string[] = []
    const first = this.owner.core as GroupMember
    for (const agent of this.members) {
      const { core } = agent
      if (core === undefined) found.push(`agent ${agent.index} is a member and holds no group`)
      else if (core.statement.epoch !== first.statement.epoch) found.push(`agent ${agent.index} is at epoch ${core.statement.epoch}`)
      else if (!equals(core.hash(), first.hash())) {
        found.push(`agent ${agent.index} holds ${JSON.stringify(summary(core))}, the owner ${JSON.stringify(summary(first))}`)
      } else if (JSON.stringify(GroupWorld.view(core)) !== JSON.stringify(GroupWorld.view(first)))
        found.push(`agent ${agent.index} sees other values`)
    }
    return found
  }

  /** Ops that an agent can open, with all keys that it was ever sent, though it was no member of their epoch; and keys of such epochs. */
  leaks(): string[] {
    const found: string[] = []
    const statements = new Map<number, SignedStatement>()
    for (const { keysSeen } of this.agents) for (const [epoch, { statement }] of keysSeen) statements.set(epoch, statement)
    for (const { index, eid: who, keysSeen } of this.agents) {
      for (const [epoch, { statement }] of keysSeen) {
        openStatement(this.crypto, statement.bytes)
        if (memberSince(statement, who) === undefined) found.push(`agent ${index} was sent the key of epoch ${epoch}`)
      }
      for (const bytes of this.ops.values()) {
        const op = readGroupOp(bytes)
        const statement = statements.get(op.epoch)
        if (statement === undefined || memberSince(statement, who) !== undefined) continue
        for (const [epoch, { dgk }] of keysSeen) {
          if (openGroupOp(runCipher(this.crypto, dgk, this.gid, op.writer, op.run), op) !== undefined) {
            found.push(`agent ${index} reads an op of epoch ${op.epoch} with the key of ${epoch}`)
          }
        }
      }
    }
    return found
  }
}

function summary(core: GroupMember): string[] {
  return core.vector().map(({ writer, run, n, applied }) => `${eidHex(writer).slice(0, 4)}/${toHex(run).slice(0, 4)}:${applied}/${n}`)
}
