import { multiaddr } from '@multiformats/multiaddr'
import { CborFields, decodeCbor, encodeCbor } from '../../protocol/cbor.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { ByteStream } from './byte-stream.ts'
import { readFrame, writeFrame } from './frame.ts'
import { withoutPeer } from './multiaddrs.ts'

/** "Can you reach me?": the asked dials the asker anew at addresses of the very IP that it sees (protocol/README.md §3). */
export const DIAL_BACK_PROTOCOL = '/rookery/reach/1.0.0'
const FRAME_BYTES_MAX = 2_048
const ADDRS_MAX = 4
const ADDR_BYTES_MAX = 128
/** Reading, dialling and answering */
export const DIAL_BACK_MS = 10_000
/** Dial-backs that this node makes at once, and for one peer within a minute; others are told nothing */
const UNDER_WAY_MAX = 4
const AGAIN_MS = 30_000
const ASKERS_MAX = 1_024

/** Asks one peer. @returns whether it reached us; undefined when it does not say */
export async function askDialBack(stream: ByteStream, addrs: readonly string[], signal: AbortSignal): Promise<boolean | undefined> {
  try {
    const asked = addrs.filter((addr) => addr.length <= ADDR_BYTES_MAX).slice(0, ADDRS_MAX)
    await writeFrame(stream, encodeCbor({ v: 1, addrs: asked }), FRAME_BYTES_MAX, { signal })
    await stream.closeWrite()
    const fields = new CborFields(decodeCbor(await readFrame(stream, FRAME_BYTES_MAX, { signal })), 'answer')
    fields.uint('v', { min: 1, max: 1 })
    const reached = fields.oneOf('reached', ['yes', 'no', 'untried'])
    fields.end()
    await stream.close()
    return reached === 'untried' ? undefined : reached === 'yes'
  } catch (error) {
    stream.reset(error instanceof Error ? error : new Error(String(error)))
    return undefined
  }
}

/** Answers such questions. Dials nothing but addresses of the IP that asks, so nobody is made to knock at a stranger's door. */
export class DialBack {
  readonly #clock: Clock
  readonly #dial: (peer: string, addrs: string[], signal: AbortSignal) => Promise<void>
  readonly #askedAtMs = new Map<string, number>()
  #underWay = 0

  /** @param dial - opens a new connection whatever there is, and closes it; rejects where none of the addresses answers */
  constructor(clock: Clock, dial: (peer: string, addrs: string[], signal: AbortSignal) => Promise<void>) {
    this.#clock = clock
    this.#dial = dial
  }

  async serve(stream: ByteStream): Promise<void> {
    const patience = new AbortController()
    const cancel = this.#clock.after(DIAL_BACK_MS, () => patience.abort(new Error('the question or the dial took too long')))
    try {
      const addrs = readQuestion(await readFrame(stream, FRAME_BYTES_MAX, { signal: patience.signal }))
      const { peer, remoteAddr } = stream.connection
      const reached = await this.#try(
        peer,
        addrs.filter((addr) => isOfSameIp(addr, remoteAddr)),
        patience.signal
      )
      await writeFrame(stream, encodeCbor({ v: 1, reached }), FRAME_BYTES_MAX, { signal: patience.signal })
      await stream.close()
    } finally {
      cancel()
    }
  }

  async #try(peer: string, addrs: string[], signal: AbortSignal): Promise<'yes' | 'no' | 'untried'> {
    const nowMs = this.#clock.monotonicMs()
    if (this.#underWay >= UNDER_WAY_MAX || nowMs - (this.#askedAtMs.get(peer) ?? Number.NEGATIVE_INFINITY) < AGAIN_MS) return 'untried'
    this.#askedAtMs.delete(peer)
    if (this.#askedAtMs.size >= ASKERS_MAX) this.#askedAtMs.delete(this.#askedAtMs.keys().next().value as string)
    this.#askedAtMs.set(peer, nowMs)
    if (addrs.length === 0) return 'no'
    const patience = new AbortController()
    const give = () => patience.abort(signal.reason)
    signal.addEventListener('abort', give, { once: true })
    const cancel = this.#clock.after(DIAL_BACK_MS / 2, () => patience.abort(new Error('no address answers')))
    this.#underWay++
    try {
      await this.#dial(peer, addrs, patience.signal)
      return 'yes'
    } catch {
      signal.throwIfAborted()
      return 'no'
    } finally {
      this.#underWay--
      cancel()
      signal.removeEventListener('abort', give)
    }
  }
}

/** @throws ProtocolError */
export function readQuestion(bytes: Uint8Array): string[] {
  const fields = new CborFields(decodeCbor(bytes), 'question')
  fields.uint('v', { min: 1, max: 1 })
  const addrs = fields.list('addrs', { max: ADDRS_MAX }, (item) => {
    if (typeof item === 'string' && item.length > 0 && item.length <= ADDR_BYTES_MAX) return item
    throw new ProtocolError('FIELD_INVALID', `an address is text of 1 to ${ADDR_BYTES_MAX} bytes`, { field: 'question.addrs' })
  })
  fields.end()
  return addrs
}

/** Both start with the same `/ip4/…` or `/ip6/…`; a name, a relay or another machine's address does not. */
export function isOfSameIp(addr: string, remoteAddr: string): boolean {
  try {
    const [first] = multiaddr(withoutPeer(addr)).getComponents()
    const [seen] = multiaddr(remoteAddr).getComponents()
    if (addr.includes('/p2p-circuit') || remoteAddr.includes('/p2p-circuit') || first === undefined || seen === undefined) return false
    return (first.name === 'ip4' || first.name === 'ip6') && first.name === seen.name && first.value === seen.value
  } catch {
    return false
  }
}
