import { Level } from 'level'
import { Reader, toHex, Writer } from '../../protocol/bytes.ts'
import { context } from '../../protocol/identity/contexts.ts'
import { CHECKPOINT_BYTES } from '../../protocol/session/checkpoint.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { RookeryError } from '../../src/errors.ts'
import type { LocalAgent } from '../../src/identity/agent.ts'
import type { PeerAddress } from '../../src/net/host.ts'
import { createHost } from '../../src/net/node-host.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'
import { randomFraction, seededRandom, systemRandom } from '../../src/platform/random.ts'
import { createSessionManager, type RunningSessionManager } from '../../src/sessions/create-session-manager.ts'
import type { Inbound, Session } from '../../src/sessions/session.ts'
import { transactionCodec } from '../../src/sessions/session-record.ts'
import { SessionStore } from '../../src/sessions/session-store.ts'
import { jsonCodec, Store } from '../../src/store/store.ts'
import { type BatchOp, FaultyLevel } from '../support/faulty-level.ts'
import { agentOf } from '../unit/sessions/memory-net.ts'
import { type AppliedChannel, type Fact, FactWriter } from './crash-facts.ts'
import type { NodeOrder, Order, Report, TrafficOrder } from './crash-orders.ts'

/** A node of the crash harness: a process of its own, with the product's host, store and sessions, and a small application. Killed by its parent. */
const order = JSON.parse(process.argv[2] ?? '{}') as NodeOrder
const tell = (report: Report) => void process.send?.(report)
const facts = new FactWriter(order.factsPath)
process.on('disconnect', () => process.exit(0))

const CHANNELS_MAX = 16
const RETRY_MS = 150
const CHECKPOINT_CONTEXT = context('checkpoint')

function die(): never {
  process.kill(process.pid, 'SIGKILL')
  throw new Error('unreachable')
}

// ── items ──

const HEAD_BYTES = 10

function encodeItem(channel: number, k: number, bytes: number): Uint8Array {
  return new Writer(HEAD_BYTES + bytes).u16(channel).u64(BigInt(k)).bytes(new Uint8Array(bytes).fill(k)).finish()
}

function itemOf(payload: Uint8Array): { channel: number; k: number } {
  const reader = new Reader(payload)
  return { channel: reader.u16('channel'), k: Number(reader.u64('k')) }
}

// ── the disk ──

const level = new Level<string, Uint8Array>(order.directory, { valueEncoding: 'view' })
await level.open()
const disk = new FaultyLevel(level, { directory: order.directory, die, written })
if (order.fault !== undefined) disk.arm(order.fault)
const store = new Store(level)
const sessionStore = new SessionStore(store)
const rows = store.table<number>('crash-applied', jsonCodec<number>())
const counters = store.table<{ count: number; lastK: number }>('crash-count', jsonCodec<{ count: number; lastK: number }>())

function written(ops: BatchOp[]): void {
  const journaled: Fact[] = []
  for (const { type, table, value } of ops) {
    if (type !== 'put' || table !== 'session-tx' || value === undefined) continue
    const { kind, payload } = transactionCodec.decode(value)
    if (kind === ITEM_KINDS.a2a) journaled.push({ fact: 'journaled', ...itemOf(payload) })
  }
  facts.write(journaled)
}

// ── the application ──

const counted = new Map<number, { count: number; lastK: number }>()
for await (const [key, value] of counters.entries()) counted.set(Number.parseInt(key, 16), value)
let broken = false

const channelKey = (channel: number) => channel.toString(16).padStart(4, '0')

async function apply(item: Inbound): Promise<void> {
  if (broken) throw new Error('the application cannot store anything')
  const { channel, k } = itemOf(item.payload)
  if (channel !== item.channel) throw new Error(`an item of channel ${channel} came on channel ${item.channel}`)
  const before = counted.get(channel)?.count ?? 0
  const after = { count: before + 1, lastK: k }
  counted.set(channel, after)
  try {
    await store.commit([
      rows.put(`${channelKey(channel)}/${before.toString(16).padStart(12, '0')}`, k),
      counters.put(channelKey(channel), after),
      ...item.position()
    ])
  } catch (error) {
    if (order.onBroken === 'die') die()
    if (!broken) {
      broken = true
      facts.write([{ fact: 'broken', error: String(error) }])
      tell({ kind: 'broken' })
    }
    throw error
  }
}

async function appliedRows(from: Record<number, number>): Promise<AppliedChannel[]> {
  const applied: AppliedChannel[] = []
  for await (const [key, { count, lastK }] of counters.entries()) {
    const channel = Number.parseInt(key, 16)
    const ks: number[] = []
    const range = { gte: `${key}/${(from[channel] ?? 0).toString(16).padStart(12, '0')}`, lt: `${key}0` }
    for await (const [, k] of rows.entries(range)) ks.push(k)
    applied.push({ channel, count, lastK, ks })
  }
  return applied
}

// ── the node ──

const plain = agentOf(order.keyByte)
/** Every checkpoint that this key signs is written down before anyone else can see it. */
const agent: LocalAgent = {
  ...plain,
  signer: {
    publicKey: plain.signer.publicKey,
    sign(message) {
      const signature = plain.signer.sign(message)
      const isCheckpoint = CHECKPOINT_CONTEXT.every((byte, i) => message[i] === byte)
      if (isCheckpoint && message.length === CHECKPOINT_CONTEXT.length + CHECKPOINT_BYTES - 64) {
        facts.write([{ fact: 'checkpoint', hex: toHex(message.subarray(CHECKPOINT_CONTEXT.length)) + toHex(signature) }])
      }
      return signature
    }
  }
}
const peerAgent = agentOf(order.peerKeyByte)
let peer: PeerAddress | undefined = order.peer
const listen = (port: number) =>
  createHost(
    { clock: systemClock, random: systemRandom, logger: silentLogger, crypto: nodeCrypto, store: undefined, validator: noDht() },
    { privateKey: new Uint8Array(32).fill(order.keyByte), listen: [`/ip4/127.0.0.1/udp/${port}/quic-v1`] }
  )
// another program of this machine may have taken the port while the node was down; then it moves
const host = await listen(order.port).catch(() => listen(0))
const manager: RunningSessionManager = await createSessionManager(
  {
    host,
    clock: systemClock,
    random: systemRandom,
    crypto: nodeCrypto,
    logger: silentLogger,
    store,
    agents: { list: () => [agent], byEid: (eid) => (toHex(eid) === agent.eidHex ? agent : undefined) },
    locate: async () => peer ?? { peer: '', addrs: [] },
    snapshot: async () => new TextEncoder().encode(JSON.stringify(Object.fromEntries(issued)))
  },
  { reconnectMsMax: 2_000 }
)

function noDht() {
  const refuse = () => {
    throw new Error('these nodes keep no values')
  }
  return { validate: refuse, select: () => 'held' as const, expiresAtMs: refuse }
}

manager.onEvent((event) => {
  if (event.kind === 'outcome-unknown') {
    if (event.entry.kind === ITEM_KINDS.a2a) facts.write([{ fact: 'returned', ...itemOf(event.entry.payload), sent: event.entry.sent }])
    return
  }
  const reason = 'reason' in event ? event.reason : ''
  const error = 'error' in event ? (event.error ?? '') : ''
  const direction = 'direction' in event ? event.direction : ''
  facts.write([{ fact: 'event', kind: event.kind, session: event.session.id, reason, direction, error }])
})
let wake = Promise.withResolvers<void>()
manager.onSession((session) => {
  for (let channel = 1; channel <= CHANNELS_MAX; channel++) session.onChannel(channel, apply)
  wake.resolve()
})

/** Those that were announced and are not over; one, or two while a new one takes an old one's place. */
const sessions = new Set<Session>()
manager.onSession((one) => {
  sessions.add(one)
  void one.closed.then(() => sessions.delete(one))
})

function current(): Session | undefined {
  const open = [...sessions].filter((one) => one.info().state !== 'closed' && one.info().state !== 'closing')
  return open.find((one) => one.info().state === 'established') ?? open.at(-1)
}

/** Opens a session where there is none: at once where it is told to, else only once the other side had its chance. */
async function keepOpen(): Promise<void> {
  let patience = order.opens === 'at once' ? 0 : 20
  for (;;) {
    if (peer !== undefined && current()?.info().state !== 'established') {
      if (patience > 0) patience -= 1
      else {
        try {
          await manager.open(agent, peerAgent.eid, peer, { signal: AbortSignal.timeout(5_000) })
        } catch {
          // the peer is down or coming up; tried again
        }
      }
    }
    wake = Promise.withResolvers<void>()
    await Promise.race([wake.promise, new Promise((resolve) => setTimeout(resolve, RETRY_MS))])
  }
}

// ── traffic ──

const issued = new Map<number, number>(Object.entries(order.issued).map(([channel, k]) => [Number(channel), k]))
let outstanding = 0
let issuing = false

async function run({ items, inFlight, channels, payloadBytesMax, seed }: TrafficOrder): Promise<void> {
  const random = seededRandom(seed)
  const below = (n: number) => Math.floor(randomFraction(random) * n)
  issuing = true
  let moved = Promise.withResolvers<void>()
  for (let left = items; left > 0 && issuing; left--) {
    while (issuing && (outstanding >= inFlight || current() === undefined)) {
      moved = Promise.withResolvers<void>()
      await Promise.race([moved.promise, new Promise((resolve) => setTimeout(resolve, RETRY_MS))])
    }
    const to = current()
    if (!issuing || to === undefined) break
    const channel = 1 + below(channels)
    const k = (issued.get(channel) ?? 0) + 1
    issued.set(channel, k)
    facts.write([{ fact: 'issued', channel, k }])
    outstanding += 1
    to.send(channel, ITEM_KINDS.a2a, encodeItem(channel, k, below(payloadBytesMax)))
      .then(
        () => facts.write([{ fact: 'acked', channel, k }]),
        (error: unknown) => {
          const known = error instanceof RookeryError ? error : undefined
          const outcome = String(known?.data?.outcome ?? 'unknown')
          facts.write([{ fact: 'failed', channel, k, code: known?.code ?? String(error), outcome }])
        }
      )
      .finally(() => {
        outstanding -= 1
        moved.resolve()
      })
  }
  issuing = false
}

async function poll(id: number): Promise<void> {
  const info = current()?.info()
  const held = info === undefined ? undefined : await sessionStore.load(info.id, nodeCrypto)
  tell({
    kind: 'poll',
    id,
    answer: {
      session: info?.id,
      state: info?.state,
      unacked: info?.unacked ?? 0,
      outstanding: outstanding + (issuing ? 1 : 0),
      tx: held === undefined ? undefined : { seq: held.journal.tx.seq.toString(), hash: toHex(held.journal.tx.hash) },
      rx: held === undefined ? undefined : { seq: held.ledger.run.seq.toString(), hash: toHex(held.ledger.run.hash) }
    }
  })
}

process.on('message', (message: Order) => {
  switch (message.kind) {
    case 'peer':
      peer = message.peer
      manager.locatorSeen(peerAgent.eid, message.peer)
      wake.resolve()
      break
    case 'traffic':
      void run(message.traffic)
      break
    case 'stop':
      issuing = false
      break
    case 'fault':
      disk.arm(message.fault)
      break
    case 'poll':
      void poll(message.id)
      break
    case 'rows':
      void appliedRows(message.from).then((applied) => tell({ kind: 'rows', id: message.id, applied }))
      break
  }
})

tell({ kind: 'up', peer: host.peer, addrs: host.addresses() })
await keepOpen()
