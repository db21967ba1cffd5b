/** The attacker, in a process of its own: waits for an order over IPC, floods, and tells what came back. */
import { noise } from '@chainsafe/libp2p-noise'
import { quic } from '@chainsafe/libp2p-quic'
import type { Connection, Libp2p, Stream } from '@libp2p/interface'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import { concat } from '../../protocol/bytes.ts'
import { eidFromDid } from '../../protocol/identity/eid.ts'
import { cookie } from '../../protocol/session/cookie.ts'
import { FRAME, HEADER_BYTES } from '../../protocol/session/header.ts'
import { decodeInit, encodeInit, NO_RESUME_ID, NO_RETRY_COOKIE } from '../../protocol/session/init.ts'
import { decodeNeg } from '../../protocol/session/neg.ts'
import { initTarget } from '../../protocol/session/target.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { PSS_PROTOCOL } from '../../src/sessions/create-session-manager.ts'
import { type Answers, type FloodOrder, noAnswers } from './flood.ts'

/** INITs that a connection of the reconnecting kind sends before it is replaced: all that a connection gets */
const INITS_A_CONNECTION = 8
/** every so many replaced connections the PeerId is replaced, too */
const CONNECTIONS_A_PEER = 5

async function attack(order: FloodOrder): Promise<Answers> {
  const { did, peer, addrs } = order.target
  const eid = eidFromDid(did)
  const target = multiaddr(`${addrs[0]}/p2p/${peer}`)
  const answers = noAnswers()
  let left = order.inits

  const init = (retryCookie = NO_RETRY_COOKIE) => {
    const nonceI = systemRandom.bytes(32)
    const target = initTarget(nodeCrypto, eid, nonceI)
    return encodeInit({
      flags: 0,
      iCookie: cookie(systemRandom.bytes(8)),
      nonceI,
      ephI: systemRandom.bytes(32),
      target,
      resumeId: NO_RESUME_ID,
      retryCookie
    })
  }

  /** One stream: an INIT, the answer, and for whoever answers RETRY the INIT again with its cookie. */
  const once = async (connection: Connection, { returnsCookie }: { returnsCookie: boolean }) => {
    left--
    let stream: Stream | undefined
    try {
      stream = await connection.newStream(PSS_PROTOCOL, { maxOutboundStreams: 1_000 })
      const frames = answersOf(stream)
      const first = init()
      stream.send(first)
      const answer = await frames.next()
      answers.sent++
      if (count(answer) !== 'retry' || !returnsCookie || left <= 0) return
      left--
      const asked = decodeNeg(answer as Uint8Array)
      if (asked.kind !== 'retry') return
      stream.send(encodeInit({ ...decodeInit(first), retryCookie: asked.retryCookie }))
      const second = await frames.next()
      answers.sent++
      count(second)
    } catch {
      left++
      answers.failed++
    } finally {
      stream?.abort(new Error('the attacker has seen enough'))
    }
  }

  const count = (answer: Uint8Array | undefined): keyof Answers => {
    const kind = answer === undefined ? 'dropped' : answer[1] === FRAME.CLOSE ? 'close' : decodeNeg(answer).kind
    answers[kind]++
    return kind
  }

  const lanes = async (connection: Connection, lane: { returnsCookie: boolean; until: () => boolean }) => {
    await Promise.all(
      Array.from({ length: order.streams }, async () => {
        while (!lane.until() && left > 0) {
          if (connection.status !== 'open') return
          await once(connection, lane)
        }
      })
    )
  }

  const slot = async (kind: 'stay' | 'cookie' | 'reconnect') => {
    let node: Libp2p | undefined
    for (let connections = 0; left > 0; connections++) {
      try {
        if (connections % CONNECTIONS_A_PEER === 0) {
          await node?.stop()
          node = await rawNode()
        }
        const connection = await (node as Libp2p).dial(target, { signal: AbortSignal.timeout(5_000) })
        answers.connections++
        let sent = 0
        const until = kind === 'reconnect' ? () => sent++ >= INITS_A_CONNECTION : () => false
        await lanes(connection, { returnsCookie: kind !== 'stay', until })
        connection.abort(new Error('on to the next'))
      } catch {
        answers.failedDials++
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    }
    await node?.stop()
  }

  const kinds = Array.from({ length: order.connections }, (_, i) => (i % 5 < 3 ? 'stay' : i % 5 === 3 ? 'cookie' : 'reconnect'))
  await Promise.all(kinds.map((kind) => slot(kind as 'stay' | 'cookie' | 'reconnect')))
  return answers
}

function rawNode(): Promise<Libp2p> {
  return createLibp2p({
    addresses: { listen: [] },
    transports: [quic()],
    connectionEncrypters: [noise()],
    connectionMonitor: { enabled: false }
  })
}

/** Whole frames of the target as they come; undefined once the stream is gone. */
function answersOf(stream: Stream): { next(): Promise<Uint8Array | undefined> } {
  let held: Uint8Array<ArrayBufferLike> = new Uint8Array(0)
  let gone = false
  let wake = () => {}
  stream.addEventListener('message', ({ data }) => {
    held = concat([held, data.subarray()])
    wake()
  })
  const end = () => {
    gone = true
    wake()
  }
  stream.addEventListener('remoteCloseWrite', end)
  stream.addEventListener('close', end)
  return {
    async next() {
      for (;;) {
        const length = HEADER_BYTES + (held.length < HEADER_BYTES ? 0 : new DataView(held.buffer, held.byteOffset).getUint32(4))
        if (held.length >= HEADER_BYTES && held.length >= length) {
          const frame = held.subarray(0, length)
          held = held.slice(length)
          return frame
        }
        if (gone) return undefined
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    }
  }
}

process.on('message', (order: FloodOrder) => void attack(order).then((answers) => process.send?.(answers)))
process.on('disconnect', () => process.exit(0))
process.send?.('ready')
