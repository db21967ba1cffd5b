import { concat, equals, fromHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { ConnectionGuard } from '../../protocol/session/connection-guard.ts'
import { cookie } from '../../protocol/session/cookie.ts'
import type { Established } from '../../protocol/session/established.ts'
import { Initiator } from '../../protocol/session/initiator.ts'
import { ITEM_KINDS } from '../../protocol/session/items.ts'
import { Responder } from '../../protocol/session/responder.ts'
import { SessionStream } from '../../protocol/session/stream.ts'
import { derivedBytes } from '../engine/seeds.ts'
import type { Bug } from './bugs.ts'
import { cheapCrypto } from './cheap-crypto.ts'
import type { ModelNode } from './model-node.ts'

const PEER_ID_PREFIX = fromHex('002408011220')
const ADDRESS = fromHex('04c0000201910211d1cd03')
const CHANNEL = 32
const ITEM = new Uint8Array(64)
/** A READY, an item and its acknowledgement take four records; more than these means that both wait for ever. */
const ROUNDS_MAX = 12

/** Where the two ends stand when the exchange has ended. */
export interface SessionFacts {
  established: boolean
  /** ways over the link until the initiator knew */
  handshakeWays: number
  /** ways of the item and its acknowledgement */
  itemWays: number
  /** what each end holds of what the initiator sent; undefined: it never came so far */
  sent: { seq: bigint; hash: Uint8Array } | undefined
  received: { seq: bigint; hash: Uint8Array } | undefined
  error?: string
}

/** Told before each record of the handshake is answered, in order. */
export type SessionStep = 'init-received' | 'established'

/** An opened session of two modelled nodes, by the protocol's own state machines: INIT, NEG, ACK, READY, one transaction and its acknowledgement. */
export function runSession(
  a: ModelNode,
  b: ModelNode,
  {
    seed,
    number,
    nowMs,
    bug,
    onStep
  }: { seed: number; number: number; nowMs: number; bug: Bug | undefined; onStep: (step: SessionStep) => void }
): SessionFacts {
  const peers = { initiator: concat([PEER_ID_PREFIX, a.peerId]), responder: concat([PEER_ID_PREFIX, b.peerId]) }
  b.responder ??= new Responder<string>({
    crypto: cheapCrypto,
    random: (length) => derivedBytes(seed, `period ${b.index}`, nowMs).slice(0, length),
    nowMs,
    identities: () => [b.signer],
    load: () => ({ state: 'free' }),
    offer: () => ({}),
    policy: () => ({ kind: 'accept' })
  })
  const initiator = new Initiator({
    crypto: cheapCrypto,
    local: a.signer,
    remoteEid: b.eid,
    peers,
    flags: 0,
    randomness: {
      iCookie: cookie(derivedBytes(seed, 'i-cookie', number).slice(0, 8)),
      nonceI: derivedBytes(seed, 'nonce', number),
      ephSecret: derivedBytes(seed, 'ephemeral', number)
    },
    contract: () => ({ kind: 'accept' })
  })
  const connection = { peers, remoteAddr: ADDRESS, guard: new ConnectionGuard() }
  let ways = 0
  let step = initiator.start(nowMs)
  let answered: ReturnType<Responder<string>['receive']> | undefined
  for (let round = 0; round < 2; round++) {
    const init = step.send[0]
    if (init === undefined) break
    answered = b.responder.receive(init, connection, nowMs)
    onStep('init-received')
    ways += 2
    if (answered.kind !== 'send') return failed(`the responder answers INIT with ${answered.kind}`)
    step = initiator.receive(answered.frame, nowMs)
    if (step.state !== 'HEARING') break
    step = initiator.tick(step.wakeAtMs) ?? step
  }
  if (step.state !== 'ESTABLISHED' || !('established' in step)) return failed(`the initiator is ${step.state}`)
  const ack = step.send[0]
  if (ack === undefined) return failed('there is no ACK')
  answered = b.responder.receive(ack, connection, nowMs)
  if (!('established' in answered)) return failed(`the responder answers ACK with ${answered.kind}`)
  onStep('established')
  return exchange(a, b, step.established, answered.established, { ways, nowMs, bug })
}

function exchange(
  a: ModelNode,
  b: ModelNode,
  establishedA: Established,
  establishedB: Established,
  { ways, nowMs, bug }: { ways: number; nowMs: number; bug: Bug | undefined }
): SessionFacts {
  const left = new SessionStream<string>({ crypto: cheapCrypto, established: establishedA, signer: a.signer, nowMs })
  const right = new SessionStream<string>({
    crypto: bug === 'hashes-badly' ? badlyHashing : cheapCrypto,
    established: establishedB,
    signer: b.signer,
    nowMs
  })
  let itemWays = 0
  let isQueued = false
  let error: string | undefined
  const carry = (from: SessionStream<string>, to: SessionStream<string>) => {
    let carried = 0
    for (let channels = from.channels(nowMs); channels.length > 0 && carried < ROUNDS_MAX; channels = from.channels(nowMs)) {
      for (const channel of channels) {
        const frame = from.next(channel, nowMs)
        if (frame === undefined) continue
        carried++
        for (const effect of to.receive(channel, frame.bytes, nowMs)) {
          if (effect.kind === 'deliver' && effect.seq !== undefined) {
            to.synced(effect.seq)
            to.handled(effect.channel, effect.payload.length)
          } else if (effect.kind === 'closed') error = effect.close.error?.message ?? effect.close.reason
        }
      }
    }
    return carried
  }
  for (let round = 0; round < ROUNDS_MAX && error === undefined; round++) {
    if (!isQueued && left.phase === 'open') {
      left.queue(CHANNEL, ITEM_KINDS.a2a, ITEM, '')
      isQueued = true
    }
    const moved = carry(left, right) + carry(right, left)
    if (isQueued) itemWays += 2
    if (moved === 0 && isQueued) break
    if (isQueued && left.txAcked.seq === left.tx.seq && left.tx.seq > 0n) break
  }
  const facts = { handshakeWays: ways, itemWays, sent: { ...left.tx }, received: { ...right.rx } }
  left.wipe()
  right.wipe()
  return { established: true, ...facts, ...(error === undefined ? {} : { error }) }
}

export function hashesAgree({ sent, received, error }: SessionFacts): boolean {
  return (
    error === undefined && sent !== undefined && received !== undefined && sent.seq === received.seq && equals(sent.hash, received.hash)
  )
}

function failed(error: string): SessionFacts {
  return { established: false, handshakeWays: 0, itemWays: 0, sent: undefined, received: undefined, error }
}

/** The deliberate fault of `hashes-badly`: the digest of a transaction leaves out its payload. */
const badlyHashing: CryptoProvider = {
  ...cheapCrypto,
  sha256: (...parts) => (parts.length === 2 ? cheapCrypto.sha256(parts[0] as Uint8Array) : cheapCrypto.sha256(...parts))
}
