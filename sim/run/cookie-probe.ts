import { type Eid, eid, eidToDid } from '../../protocol/identity/eid.ts'
import { COOKIE_BYTES, cookie } from '../../protocol/session/cookie.ts'
import { FRAME, HEADER_BYTES } from '../../protocol/session/header.ts'
import { Initiator } from '../../protocol/session/initiator.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { PSS_PROTOCOL } from '../../src/sessions/create-session-manager.ts'
import { readSessionFrame } from '../../src/sessions/frame-reader.ts'
import { peerIds } from '../../src/sessions/peer-bytes.ts'
import type { SimNode } from '../engine/boot-node.ts'
import { derivedBytes } from '../engine/seeds.ts'
import type { Fact } from './facts.ts'

/** Where the responder's cookie stands in every frame (protocol/README.md §6, Header). */
const R_COOKIE_AT = HEADER_BYTES - COOKIE_BYTES
const PATIENCE_MS = 20_000

/**
 * Opens half a session with a node, by an identity that nobody has: a right INIT, then an ACK with a cookie that the node never gave. Whatever the node
 * then holds for that identity is state before a valid cookie.
 * @returns what was seen; nothing where the exchange did not come so far
 */
export async function probeCookie(
  caller: SimNode,
  target: SimNode,
  to: Eid,
  { seed, number, signal }: { seed: number; number: number; signal: AbortSignal }
): Promise<Fact[]> {
  const secret = derivedBytes(seed, 'probe', number)
  const key = nodeCrypto.ed25519.publicKey(secret)
  const patience = AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)])
  const at = { peer: target.node.peer, addrs: target.node.host.addresses() }
  const stream = await caller.node.host.openStream(at, PSS_PROTOCOL, { signal: patience }).catch(() => undefined)
  if (stream === undefined) return []
  try {
    const machine = new Initiator({
      crypto: nodeCrypto,
      local: { publicKey: key, sign: (message) => nodeCrypto.ed25519.sign(secret, message) },
      remoteEid: to,
      peers: peerIds(caller.node.peer, stream.connection, 'initiator'),
      flags: 0,
      randomness: {
        iCookie: cookie(derivedBytes(seed, 'probe-cookie', number).slice(0, 8)),
        nonceI: derivedBytes(seed, 'probe-nonce', number),
        ephSecret: derivedBytes(seed, 'probe-ephemeral', number)
      },
      contract: () => ({ kind: 'accept' })
    })
    const init = machine.start(systemClock.monotonicMs()).send[0] as Uint8Array
    await stream.write(init, { signal: patience })
    const { frame: neg } = await readSessionFrame(stream, { signal: patience })
    const step = machine.receive(neg, systemClock.monotonicMs())
    const ack = step.state === 'ESTABLISHED' ? step.send[0]?.slice() : undefined
    if (ack === undefined) return []
    ack[R_COOKIE_AT] = (ack[R_COOKIE_AT] as number) ^ 1
    await stream.write(ack, { signal: patience })
    // CLOSE, or the end of the stream. Any other frame is made with keys of a session
    const answer = await readSessionFrame(stream, { signal: patience }).catch(() => undefined)
    const did = eidToDid(eid(key))
    const isTaken = answer !== undefined && answer.header.type !== FRAME.CLOSE
    const isHeld = target.node.sessions.list().some(({ remote }) => remote === did)
    return [{ fact: 'session-state', node: target.index, cookie: isTaken || isHeld ? 'none' : 'valid' }]
  } catch {
    return []
  } finally {
    stream.reset(new Error('the probe is over'))
  }
}
