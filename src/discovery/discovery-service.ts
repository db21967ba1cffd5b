import { equals } from '../../protocol/bytes.ts'
import { Admission, type AdmissionInit } from '../../protocol/discovery/admission.ts'
import { decodeCriteria } from '../../protocol/discovery/criteria.ts'
import { RELAY_MS_MAX, roleOf } from '../../protocol/discovery/relay.ts'
import { DISCOVERY_PROTOCOL, decodeRequestHeader, withHops } from '../../protocol/discovery/request.ts'
import { encodeRejection, type RejectReason } from '../../protocol/discovery/response.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import { allowManyListeners } from '../platform/many-listeners.ts'
import { withDeadline } from '../spaces/deadline.ts'
import { AnswersBack } from './answers-back.ts'
import type { AdmittedRequest, DiscoveryComponents } from './components.ts'
import { type ConnectionSlot, ConnectionSlots } from './connection-slots.ts'
import { MemberRole } from './member-role.ts'
import { RegistrarRole } from './registrar-role.ts'
import { RelayRole } from './relay-role.ts'

/** A header, and after it the criteria, must be there within this. */
export const REQUEST_READ_MS = 5_000
/** Streams of this protocol that one connection may have open; libp2p refuses more. */
export const DISCOVERY_INBOUND_STREAMS_MAX = 64

export interface DiscoveryStats {
  /** bits of work asked for now */
  difficulty: number
  /** requests taken and not yet answered, tokens remembered, connections with a buffer */
  queued: number
  remembered: number
  connections: number
  /** requests that played their role here, and those that did not, by why */
  served: number
  refused: Record<'faulty' | 'late' | 'replayed' | RejectReason, number>
}

export interface DiscoveryService {
  stats(): DiscoveryStats
  stop(): Promise<void>
}

/**
 * Takes requests of others: header, judgement, replay set, criteria, role, in this order. Until the work is found good a request has cost the buffer of its
 * connection and a counter, and it leaves no other trace: no log line, no map, no reply but one REJ a second.
 */
export async function serveDiscovery(components: DiscoveryComponents, init: AdmissionInit = {}): Promise<DiscoveryService> {
  const service = new Service(components, init)
  await components.host.handle(DISCOVERY_PROTOCOL, (stream) => service.take(stream), { inboundStreamsMax: DISCOVERY_INBOUND_STREAMS_MAX })
  return service
}

class Service implements DiscoveryService {
  readonly #c: DiscoveryComponents
  readonly #admission: Admission
  readonly #slots: ConnectionSlots
  readonly #relay: RelayRole
  readonly #registrar: RegistrarRole
  readonly #member: MemberRole
  readonly #stopping = new AbortController()
  #served = 0
  readonly #refused: DiscoveryStats['refused'] = { faulty: 0, late: 0, replayed: 0, work: 0, clock: 0, full: 0 }

  constructor(components: DiscoveryComponents, init: AdmissionInit) {
    allowManyListeners(this.#stopping.signal) // one for each request under way
    this.#c = components
    this.#admission = new Admission(init)
    this.#slots = new ConnectionSlots(components.clock)
    const toSelf = this.#toSelf.bind(this)
    this.#relay = new RelayRole(components, toSelf)
    this.#registrar = new RegistrarRole(components, toSelf)
    this.#member = new MemberRole(components)
  }

  /** Never throws: what a stranger sends is no error of ours, and the host would log it. */
  async take(stream: ByteStream): Promise<void> {
    const slot = this.#slots.of(stream.connection.id)
    if (slot === undefined) return this.#drop(stream, 'full')
    let admitted: AdmittedRequest | undefined
    try {
      admitted = await slot.read((header) => this.#admit(stream, slot, header))
    } catch {
      return this.#drop(stream, 'late')
    }
    if (admitted === undefined) return
    const played = await this.#play(admitted, stream).then(
      () => true,
      () => false
    )
    this.#admission.leave()
    if (!played) return stream.reset(OVER)
    this.#served++
    await stream.close()
  }

  async #admit(stream: ByteStream, slot: ConnectionSlot, buffer: Uint8Array): Promise<AdmittedRequest | undefined> {
    const { clock, crypto } = this.#c
    return await withDeadline(clock, REQUEST_READ_MS, this.#stopping.signal, async (signal) => {
      await stream.readInto(buffer, { signal })
      const judgement = this.#admission.judge(buffer, clock.nowMs())
      if (judgement.kind === 'faulty') return this.#drop(stream, 'faulty')
      if (judgement.kind === 'wanting') return await this.#reject(stream, slot, judgement.reason, signal)
      const entry = this.#admission.enter(buffer, clock.nowMs())
      if (entry.kind === 'known') return this.#drop(stream, 'replayed')
      if (entry.kind === 'full') return await this.#reject(stream, slot, 'full', signal)
      try {
        const header = buffer.slice()
        const request = decodeRequestHeader(header)
        const criteriaBytes = await stream.read(request.criteriaBytes, { signal })
        if (!equals(crypto.sha256(criteriaBytes), request.criteriaHash)) throw new ProtocolError('HASH_MISMATCH', 'other criteria')
        return { header, request, criteriaBytes, criteria: decodeCriteria(criteriaBytes), seed: entry.seed, from: stream.connection.peer }
      } catch (error) {
        this.#admission.leave()
        if (error instanceof ProtocolError) return this.#drop(stream, 'faulty')
        throw error
      }
    })
  }

  async #reject(stream: ByteStream, slot: ConnectionSlot, reason: RejectReason, signal: AbortSignal): Promise<undefined> {
    if (!slot.mayReject()) return this.#drop(stream, reason)
    this.#refused[reason]++
    await stream.write(encodeRejection({ difficulty: this.#admission.difficulty, reason }), { signal })
    void stream.close() // not awaited: others wait for the buffer
  }

  #drop(stream: ByteStream, why: keyof DiscoveryStats['refused']): undefined {
    this.#refused[why]++
    stream.reset(OVER)
  }

  /** For at most 15 s, and no longer than the stream that the answers go back by. */
  async #play(admitted: AdmittedRequest, stream: ByteStream): Promise<void> {
    await withDeadline(this.#c.clock, RELAY_MS_MAX, this.#stopping.signal, async (signal) => {
      const gone = new AbortController()
      const inner = AbortSignal.any([signal, gone.signal])
      void stream.closed.then(() => gone.abort(OVER))
      await this.#playRole(admitted, admitted.request.hops, new AnswersBack(stream, inner), inner)
    })
  }

  async #playRole(admitted: AdmittedRequest, hops: number, back: AnswersBack, signal: AbortSignal): Promise<void> {
    switch (roleOf(hops)) {
      case 'stem':
        return await this.#relay.stem(admitted, back, signal)
      case 'deliver':
        return await this.#relay.deliver(admitted, back, signal)
      case 'registrar':
        return await this.#registrar.serve(admitted, back, signal)
      case 'member':
        return await this.#member.serve(admitted, back)
    }
  }

  /** This node is the next hop too: the same replay set, no stream. */
  async #toSelf(admitted: AdmittedRequest, hops: number, back: AnswersBack, signal: AbortSignal): Promise<void> {
    const header = withHops(admitted.header, hops)
    if (this.#admission.enter(header, this.#c.clock.nowMs()).kind !== 'entered') return
    try {
      await this.#playRole({ ...admitted, header, request: { ...admitted.request, hops }, from: undefined }, hops, back, signal)
    } finally {
      this.#admission.leave()
    }
  }

  stats(): DiscoveryStats {
    const { difficulty, queued, remembered } = this.#admission
    return { difficulty, queued, remembered, connections: this.#slots.size, served: this.#served, refused: { ...this.#refused } }
  }

  async stop(): Promise<void> {
    this.#stopping.abort(OVER)
    await this.#c.host.unhandle(DISCOVERY_PROTOCOL)
  }
}

const OVER = new Error('the request is over')
