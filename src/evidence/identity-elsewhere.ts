import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { locatorKey } from '../../protocol/discovery/dht-key.ts'
import { eidHex, eid as eidOf, eidToDid } from '../../protocol/identity/eid.ts'
import { wipeEstablished } from '../../protocol/session/established.ts'
import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Host, PeerAddress } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import { PSS_PROTOCOL } from '../sessions/create-session-manager.ts'
import { initiate } from '../sessions/initiate.ts'
import { dhtRecords } from '../spaces/dht-records.ts'

/** A start waits no longer than this for the network to say where its agents were last, */
export const ELSEWHERE_MS = 2_500
/** and no longer than this for such a place to answer: what an address of an earlier run, where nobody is any more, costs. */
const ANSWER_MS = 1_000
/** A start looks after so many of its agents. */
const AGENTS_MAX = 16
const POLL_MS = 25

export interface ElsewhereComponents {
  host: Host
  clock: Clock
  random: Random
  crypto: CryptoProvider
  logger: Logger
  /** a host under another PeerId: a copy of a whole data directory has ours, and nobody dials himself */
  otherHost: () => Promise<Host>
}

/**
 * Ends the start of a copied data directory whose identity answers elsewhere (protocol/README.md §8): before anything is served or signed, each agent's last
 * locator is looked up, and where it names a place that is not ours, that place is asked by INIT; only the holder of the key can give a NEG. Where
 * nothing is reached in {@link ELSEWHERE_MS} the node starts: the locator rule of evidence is the second line.
 * @throws RookeryError `IDENTITY_ELSEWHERE`; or the signal's reason
 */
export async function refuseIfElsewhere(
  components: ElsewhereComponents,
  agents: readonly LocalAgent[],
  options: { signal?: AbortSignal | undefined } = {}
): Promise<void> {
  const { host, clock } = components
  const patience = new AbortController()
  const cancel = clock.after(ELSEWHERE_MS, () => patience.abort(new Error('the network does not say in time')))
  const signal = options.signal === undefined ? patience.signal : AbortSignal.any([patience.signal, options.signal])
  const probe = new Probe(components)
  try {
    while (host.dht.routingTableSize() === 0) await clock.sleep(POLL_MS, { signal })
    await Promise.all(agents.slice(0, AGENTS_MAX).map((agent) => probe.look(agent, signal)))
  } catch (error) {
    options.signal?.throwIfAborted()
    if (error instanceof RookeryError && error.code === 'IDENTITY_ELSEWHERE') throw error
    components.logger.debug({ err: error }, 'whether this identity answers elsewhere could not be told')
  } finally {
    cancel()
    patience.abort(new Error('the look-up is over'))
    await probe.close()
  }
}

class Probe {
  readonly #c: ElsewhereComponents
  #other: Promise<Host> | undefined

  constructor(components: ElsewhereComponents) {
    this.#c = components
  }

  async look(agent: LocalAgent, signal: AbortSignal): Promise<void> {
    const { host, crypto, clock } = this.#c
    const own = new Set(host.addresses())
    for await (const record of dhtRecords({ dht: host.dht, crypto, clock }, locatorKey(agent.eid), signal)) {
      if (record.kind !== 'locator' || record.payload.gone === true) continue
      const { peer } = record.payload
      const addrs = peer === host.peer ? record.payload.addrs.filter((addr) => !own.has(addr)) : record.payload.addrs
      if (addrs.length === 0) continue
      if (await this.#answers({ peer, addrs }, agent, signal)) throw elsewhere(agent, { peer, addrs })
    }
  }

  async #answers(address: PeerAddress, agent: LocalAgent, outer: AbortSignal): Promise<boolean> {
    const { host, crypto, clock, random, logger } = this.#c
    const patience = new AbortController()
    const cancel = clock.after(ANSWER_MS, () => patience.abort(new Error('no answer in time')))
    const signal = AbortSignal.any([patience.signal, outer])
    try {
      const from = address.peer === host.peer ? await this.#otherHost() : host
      const stream = await from.openStream(address, PSS_PROTOCOL, { signal })
      try {
        const { established } = await initiate({ crypto, clock, random, self: from.peer }, stream, stranger(crypto, random), agent.eid, {
          signal
        })
        wipeEstablished(established)
        return true
      } finally {
        stream.reset(new Error('no session is wanted'))
      }
    } catch (error) {
      logger.debug({ err: error, agent: agent.did }, 'the last place of this agent does not answer in its name')
      return false
    } finally {
      cancel()
    }
  }

  #otherHost(): Promise<Host> {
    this.#other ??= this.#c.otherHost()
    return this.#other
  }

  async close(): Promise<void> {
    try {
      await (await this.#other)?.stop()
    } catch (error) {
      this.#c.logger.debug({ err: error }, 'the second host did not open or close')
    }
  }
}

/** Somebody who never was and never will be: the handshake ends before it would prove who it is. */
function stranger(crypto: CryptoProvider, random: Random): LocalAgent {
  const seed = random.bytes(32)
  const eid = eidOf(crypto.ed25519.publicKey(seed))
  return {
    name: 'stranger',
    eid,
    eidHex: eidHex(eid),
    did: eidToDid(eid),
    description: '',
    signer: { publicKey: eid, sign: (message) => crypto.ed25519.sign(seed, message) },
    mailboxKey: new Uint8Array(32),
    mailboxSecret: () => undefined,
    reachability: { mode: 'session' }
  }
}

function elsewhere(agent: LocalAgent, { peer, addrs }: PeerAddress): RookeryError {
  return new RookeryError('IDENTITY_ELSEWHERE', `${agent.name} (${agent.did}) answers at another place: ${addrs[0]}`, {
    kind: 'conflict',
    field: 'dataDir',
    value: agent.did,
    remedy: 'a data directory must not run twice: stop the other node, or make an identity of its own here with `rookery init`',
    data: { peer, addrs: [...addrs] }
  })
}
