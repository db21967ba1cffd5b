import { concat, fromHex, utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider, Signer } from '../../protocol/crypto/provider.ts'
import { type Eid, eid } from '../../protocol/identity/eid.ts'
import { ConnectionGuard } from '../../protocol/session/connection-guard.ts'
import type { ContractVerdict } from '../../protocol/session/contract-policy.ts'
import { cookie } from '../../protocol/session/cookie.ts'
import type { Established } from '../../protocol/session/established.ts'
import { Initiator, type InitiatorStep } from '../../protocol/session/initiator.ts'
import {
  type Load,
  type Offer,
  type OfferRequest,
  type PolicyVerdict,
  Responder,
  type ResponderConnection,
  type ResponderStep
} from '../../protocol/session/responder.ts'
import type { SfcBlock } from '../../protocol/session/sfc.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'

/** Bytes that stand for randomness: the same for the same name. */
export function fixedBytes(name: string, length = 32): Uint8Array {
  return nodeCrypto.sha256(utf8(name)).slice(0, length)
}

export function signerOf(crypto: CryptoProvider, seed: Uint8Array): Signer {
  return { publicKey: crypto.ed25519.publicKey(seed), sign: (message) => crypto.ed25519.sign(seed, message) }
}

export const PEER_I = concat([fromHex('002408011220'), fixedBytes('peer i')])
export const PEER_R = concat([fromHex('002408011220'), fixedBytes('peer r')])
export const ADDR = fromHex('04c0000201910211d1cd03')

export const BLOCK: SfcBlock = {
  site: 'cloud',
  scopes: 0b10111,
  eseBytesMax: 65_536,
  messagesPerMinuteMax: 600,
  payloadBytesMax: 262_144,
  sessionSecondsMax: 86_400,
  storedBytesMax: 2_097_152,
  concurrentTasksMax: 8,
  region: 276
}

export function connectionOf(change: Partial<ResponderConnection> = {}): ResponderConnection {
  return { peers: { initiator: PEER_I, responder: PEER_R }, remoteAddr: ADDR, guard: new ConnectionGuard(), ...change }
}

export interface PairOptions {
  crypto?: CryptoProvider
  flags?: number
  resumeId?: Uint8Array
  offer?: (request: OfferRequest) => Offer
  load?: () => Load
  policy?: () => PolicyVerdict<string>
  contract?: (offer: SfcBlock | undefined) => ContractVerdict
  remoteEid?: Eid
  spentPairsMax?: number
  /** names this exchange's randomness */
  name?: string
}

/** Both sides of one exchange over one connection, with fixed keys and randomness, at monotonic time 0. */
export function handshakePair(options: PairOptions = {}) {
  const crypto = options.crypto ?? nodeCrypto
  const localI = signerOf(crypto, fixedBytes('seed i'))
  const localR = signerOf(crypto, fixedBytes('seed r'))
  const another = signerOf(crypto, fixedBytes('seed of another agent'))
  const eidR = eid(localR.publicKey)
  let secrets = 0
  const responder = new Responder<string>({
    crypto,
    random: (length) => fixedBytes(`period secret ${secrets++}`, length),
    nowMs: 0,
    identities: () => [another, localR],
    load: options.load ?? (() => ({ state: 'free' })),
    offer: options.offer ?? (() => ({ sfc: BLOCK, group: true })),
    policy: options.policy ?? (() => ({ kind: 'accept' })),
    ...(options.spentPairsMax === undefined ? {} : { spentPairsMax: options.spentPairsMax })
  })
  const initiatorOf = (name: string) => {
    const ephSecret = fixedBytes(`${name} eph`)
    const initiator = new Initiator({
      crypto,
      local: localI,
      remoteEid: options.remoteEid ?? eidR,
      peers: { initiator: PEER_I, responder: PEER_R },
      flags: options.flags ?? 0,
      ...(options.resumeId === undefined ? {} : { resumeId: options.resumeId }),
      randomness: { iCookie: cookie(fixedBytes(`${name} cookie`, 8)), nonceI: fixedBytes(`${name} nonce`), ephSecret },
      contract: options.contract ?? (() => ({ kind: 'accept' }))
    })
    return { initiator, ephSecret }
  }
  return { crypto, eidI: eid(localI.publicKey), eidR, responder, initiatorOf, ...initiatorOf(options.name ?? 'exchange') }
}

/** The one frame of a step that sends one. */
export function sent(step: InitiatorStep | ResponderStep<string> | undefined): Uint8Array {
  const frame = step === undefined ? undefined : 'kind' in step ? (step.kind === 'send' ? step.frame : undefined) : step.send[0]
  if (frame === undefined)
    throw new Error(`the step sends nothing: ${JSON.stringify(step, (_, value) => (value instanceof Error ? String(value) : value))}`)
  return frame
}

export function establishedOf(step: InitiatorStep | ResponderStep<string>): Established {
  if (!('established' in step)) throw new Error('the step establishes nothing')
  return step.established
}

export type Wire = 'INIT' | 'NEG' | 'ACK'

/** Runs a whole exchange at time `nowMs`; `tamper` may change each frame on its way. Follows one RETRY. Frames are those put on the wire. */
export function runHandshake(
  pair: ReturnType<typeof handshakePair>,
  { nowMs = 0, connection = connectionOf(), tamper = (_: Wire, frame: Uint8Array) => frame } = {}
) {
  const frames: Uint8Array[] = []
  const put = (name: Wire, frame: Uint8Array) => {
    frames.push(frame)
    return tamper(name, frame)
  }
  let initiatorStep: InitiatorStep = pair.initiator.start(nowMs)
  let responderStep: ResponderStep<string> | undefined
  for (let round = 0; round < 2; round++) {
    responderStep = pair.responder.receive(put('INIT', sent(initiatorStep)), connection, nowMs)
    if (responderStep.kind !== 'send') return { initiatorStep, responderStep, frames }
    initiatorStep = pair.initiator.receive(put('NEG', responderStep.frame), nowMs)
    if (initiatorStep.state !== 'HEARING') break
    nowMs = initiatorStep.wakeAtMs
    initiatorStep = pair.initiator.tick(nowMs) ?? initiatorStep
  }
  if (initiatorStep.state === 'ESTABLISHED') responderStep = pair.responder.receive(put('ACK', sent(initiatorStep)), connection, nowMs)
  return { initiatorStep, responderStep, frames }
}

/** A provider that remembers every secret it handed out, so that a test can look whether it was overwritten. */
export function recordingCrypto(base: CryptoProvider): { crypto: CryptoProvider; secrets: Map<string, Uint8Array[]> } {
  const secrets = new Map<string, Uint8Array[]>()
  const keep = (kind: string, bytes: Uint8Array) => {
    secrets.set(kind, [...(secrets.get(kind) ?? []), bytes])
    return bytes
  }
  const crypto: CryptoProvider = {
    ...base,
    hkdfExtract: (salt, ikm) => keep('extract', base.hkdfExtract(salt, ikm)),
    hkdfExpand: (prk, info, length) => keep('expand', base.hkdfExpand(prk, info, length)),
    x25519: {
      publicKey: base.x25519.publicKey,
      sharedSecret(secret, key) {
        const shared = base.x25519.sharedSecret(secret, key)
        return shared === undefined ? undefined : keep('dh', shared)
      },
      exchange(secret, key) {
        const both = base.x25519.exchange(secret, key)
        if (both !== undefined) keep('dh', both.shared)
        return both
      }
    }
  }
  return { crypto, secrets }
}

export function flippedBit(frame: Uint8Array, bit: number): Uint8Array {
  const copy = frame.slice()
  copy[bit >> 3] = (copy[bit >> 3] as number) ^ (0x80 >> (bit & 7))
  return copy
}
