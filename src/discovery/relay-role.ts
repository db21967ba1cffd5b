import { DELIVERIES, stemCandidates } from '../../protocol/discovery/relay.ts'
import { HOPS, withHops } from '../../protocol/discovery/request.ts'
import type { PeerAddress } from '../net/host.ts'
import { shuffled } from '../platform/shuffled.ts'
import type { AnswersBack } from './answers-back.ts'
import type { AdmittedRequest, DiscoveryComponents, ToSelf } from './components.ts'
import { sendOn } from './send-on.ts'

/** Peers that are tried before a hop gives a request up. */
const TRIES_MAX = 3

/** Carries requests towards the registrars, so that those do not learn who asked (protocol/README.md §5). */
export class RelayRole {
  readonly #c: DiscoveryComponents
  readonly #toSelf: ToSelf

  constructor(components: DiscoveryComponents, toSelf: ToSelf) {
    this.#c = components
    this.#toSelf = toSelf
  }

  /** First stem peer: to another peer that is no registrar; delivers itself where there is nobody else. */
  async stem(admitted: AdmittedRequest, back: AnswersBack, signal: AbortSignal): Promise<void> {
    const { host, random } = this.#c
    const from = new Set(admitted.from === undefined ? [] : [admitted.from])
    const chosen = stemCandidates(host.dht.table(), this.#registrarsKnown(admitted.request.target), from)
    for (const peer of shuffled(random, chosen?.peers ?? []).slice(0, TRIES_MAX)) {
      if (await forward(this.#c, { peer, addrs: [] }, admitted, HOPS.deliver, back, signal)) return
    }
    await this.deliver(admitted, back, signal)
  }

  /** Second stem peer: to three of the registrars that the DHT finds. */
  async deliver(admitted: AdmittedRequest, back: AnswersBack, signal: AbortSignal): Promise<void> {
    const { host, registry, random } = this.#c
    const all = await registry.registrars(admitted.request.target, { signal })
    const others = all.filter(({ peer }) => peer !== admitted.from)
    const queue = shuffled(random, others.length > 0 ? others : all).values()
    const deliverOne = async () => {
      for (const registrar of queue) {
        if (signal.aborted) return
        if (registrar.peer === host.peer) return await this.#toSelf(admitted, HOPS.registrar, back, signal)
        if (await forward(this.#c, registrar, admitted, HOPS.registrar, back, signal)) return
      }
    }
    await Promise.all(Array.from({ length: DELIVERIES }, deliverOne))
  }

  #registrarsKnown(target: Uint8Array): ReadonlySet<string> {
    return new Set(this.#c.host.dht.nearestKnown(target, this.#c.registrarsMax))
  }
}

/** Sends an admitted request one hop further. @returns false where the peer could not be reached */
export async function forward(
  { host }: Pick<DiscoveryComponents, 'host'>,
  peer: PeerAddress,
  { header, criteriaBytes }: AdmittedRequest,
  hops: number,
  back: AnswersBack,
  signal: AbortSignal
): Promise<boolean> {
  let answered = false
  const receiver = {
    async item(bytes: Uint8Array) {
      answered = true
      await back.item(bytes)
      return back.isFull ? ('enough' as const) : ('more' as const)
    },
    async reject(rejection: Parameters<AnswersBack['reject']>[0]) {
      answered = true
      await back.reject(rejection)
    }
  }
  try {
    await sendOn(host, peer, { header: withHops(header, hops), criteria: criteriaBytes }, receiver, signal)
    return true
  } catch {
    return answered || signal.aborted
  }
}
