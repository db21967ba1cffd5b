import type { NetworkFacts } from './network-facts.ts'

export type FindingCode =
  | 'NO_PEERS'
  | 'ROUTING_TABLE_EMPTY'
  | 'ONLY_PRIVATE_ADDRESSES'
  | 'NO_ADDRESS'
  | 'UDP_BLOCKED'
  | 'CLOCK_WRONG'
  | 'BEHIND_NAT'
  | 'BOOTSTRAP_UNREACHED'
  | 'REGISTRARS_FAULTY'

/** One thing that is wrong, in words. `problem`: searches or deliveries fail now; `warning`: some do, or soon will. */
export interface NetworkFinding {
  code: FindingCode
  severity: 'problem' | 'warning'
  /** what is wrong */
  title: string
  /** what was seen that says so */
  evidence: string[]
  /** what to do about it */
  remedy: string
}

/** Records of others allow so much; a clock that is off by more makes this node refuse theirs, or them ours (protocol/README.md §3). */
export const CLOCK_OFF_MAX_MS = 120_000
/** Peers that must agree before the clock is called wrong: one may lie, and with two nobody is in the middle. */
const PEER_TIMES_MIN = 3
/** So many that could not reach us, and none that could, make a NAT or a firewall. */
const DIAL_BACKS_FAILED_MIN = 2
const SHOWN_MAX = 5
const OPEN_PORT =
  'forward the port of the node (UDP and TCP) in the router and set announce to the address outside, or set reachability.upnp to true where the router knows UPnP'

/** What is wrong with this node's network, the worst first; none: all that can be seen from here is well. Pure. */
export function diagnoseNetwork(facts: NetworkFacts): NetworkFinding[] {
  const found = [clock, udp, peers, table, addresses, nat, bootstrap, registrars].flatMap((look) => look(facts) ?? [])
  return found.sort((a, b) => Number(a.severity === 'warning') - Number(b.severity === 'warning'))
}

function clock({ nowMs, peerTimes, clockHeld }: NetworkFacts): NetworkFinding | undefined {
  const jumped = clockHeld === undefined ? [] : [`the clock jumped while the node ran: ${clockHeld}`]
  const behindMs = middle(peerTimes.map(({ newestSignedMs }) => newestSignedMs - nowMs))
  const aheadMs = middle(peerTimes.map(({ firstExpiresMs }) => nowMs - firstExpiresMs))
  const offMs = Math.max(behindMs ?? 0, aheadMs ?? 0)
  if (peerTimes.length >= PEER_TIMES_MIN && offMs > CLOCK_OFF_MAX_MS) {
    const way = offMs === behindMs ? 'behind' : 'ahead of'
    return {
      code: 'CLOCK_WRONG',
      severity: 'problem',
      title: `this machine's clock is ${way} the network by ${duration(offMs)} at least`,
      evidence: [
        `this machine says ${new Date(nowMs).toISOString()}`,
        offMs === behindMs
          ? `${peerTimes.length} peers hold records that were signed later, the middle one of their newest ${duration(offMs)} later`
          : `${peerTimes.length} peers hold records that ran out before that, the middle one of their first ${duration(offMs)} before`,
        ...jumped
      ],
      remedy: 'set the clock by NTP (on Linux: timedatectl set-ntp true), then restart the node'
    }
  }
  if (clockHeld === undefined) return undefined
  return {
    code: 'CLOCK_WRONG',
    severity: 'warning',
    title: "this machine's clock jumped",
    evidence: jumped,
    remedy: 'check the clock (on Linux: timedatectl); queues are handed over again once it is right'
  }
}

function udp({ udp, addresses, bootstrap, connections }: NetworkFacts): NetworkFinding | undefined {
  const isQuic = ({ transport }: { transport: string }) => transport === 'quic'
  const tried = bootstrap.filter(isQuic)
  const over = (transport: string) => connections.find((one) => one.transport === transport)?.count ?? 0
  const otherWorks = over('tcp') > 0 || bootstrap.some(({ transport, outcome }) => transport === 'tcp' && outcome === 'reached')
  const none = over('quic') === 0 && !tried.some(({ outcome }) => outcome === 'reached')
  const isMute = udp.outcome === 'failed'
  const listensOnTcpAlone = addresses.length > 0 && addresses.every(({ transport }) => transport === 'tcp')
  const isCutOff = otherWorks && none && tried.length > 0
  if (!isMute && !isCutOff && !listensOnTcpAlone) return undefined
  return {
    code: 'UDP_BLOCKED',
    severity: otherWorks ? 'warning' : 'problem',
    title: isMute
      ? 'this machine lets the node send no UDP, so QUIC cannot work'
      : isCutOff
        ? 'UDP is blocked on the way: QUIC reaches nobody, TCP does'
        : 'QUIC does not listen here: this node has TCP addresses only',
    evidence: [
      ...(isMute ? [`a datagram to this machine itself: ${udp.reason ?? 'did not come'}`] : []),
      ...tried.filter(({ outcome }) => outcome === 'failed').map(({ addr, reason }) => `${addr}: ${reason ?? 'no answer'}`),
      `${over('quic')} peers over QUIC, ${over('tcp')} over TCP`,
      ...(listensOnTcpAlone ? addresses.map(({ addr }) => `listens on ${addr}`) : [])
    ].slice(0, SHOWN_MAX),
    remedy: isMute
      ? 'allow UDP for this program in the firewall, the container or the sandbox that it runs in'
      : isCutOff
        ? 'let UDP out, and in to the port of the node; until then give bootstrap peers with TCP addresses'
        : 'add /ip4/0.0.0.0/udp/4711/quic-v1 to listen in the configuration'
  }
}

function peers({ peers, bootstrap, mdns, uptimeMs }: NetworkFacts): NetworkFinding | undefined {
  if (peers > 0) return undefined
  const known = bootstrap.length > 0 || mdns
  return {
    code: 'NO_PEERS',
    severity: 'problem',
    title: 'this node is connected to nobody',
    evidence: [
      `up for ${duration(uptimeMs)}`,
      `bootstrap addresses: ${bootstrap.length}, multicast DNS ${mdns ? 'on' : 'off'}`,
      ...bootstrap.filter(({ outcome }) => outcome === 'failed').map(({ addr, reason }) => `${addr}: ${reason ?? 'no answer'}`)
    ].slice(0, SHOWN_MAX),
    remedy: known
      ? 'check that the bootstrap nodes run (`rookery status` there shows their addresses) and that no firewall is between; the node goes on trying by itself'
      : 'name a node that runs under bootstrap in the configuration, or turn mdns on where the others are on the same link'
  }
}

function table({ peers, routingTableSize }: NetworkFacts): NetworkFinding | undefined {
  if (peers === 0 || routingTableSize > 0) return undefined
  return {
    code: 'ROUTING_TABLE_EMPTY',
    severity: 'problem',
    title: 'no peer serves the DHT, so nothing can be looked up',
    evidence: [`connected to ${peers}, of them 0 in the routing table`],
    remedy: 'bootstrap from a node that others can reach and that runs this protocol (`rookery status` there says: DHT server)'
  }
}

function addresses({ addresses, scope, dhtMode }: NetworkFacts): NetworkFinding | undefined {
  if (addresses.length === 0) {
    return {
      code: 'NO_ADDRESS',
      severity: 'problem',
      title: 'this node listens nowhere that it could tell others',
      evidence: ['no address to publish'],
      remedy: 'set listen in the configuration, or announce to the address that a router forwards to it'
    }
  }
  if (scope !== 'public' || addresses.some(({ isPublic }) => isPublic)) return undefined
  return {
    code: 'ONLY_PRIVATE_ADDRESSES',
    severity: 'warning',
    title: 'this node has only private addresses, and the network is set to public: nobody there can dial it',
    evidence: [...addresses.slice(0, SHOWN_MAX - 1).map(({ addr }) => addr), `DHT ${dhtMode}`],
    remedy: 'forward a port and set announce to the public address, or set network: lan where all nodes are in one private network'
  }
}

function nat({ dialBacks, dhtMode, reachability }: NetworkFacts): NetworkFinding | undefined {
  if (dialBacks.reached > 0 || dialBacks.failed < DIAL_BACKS_FAILED_MIN) return undefined
  const relays = reachability?.relays ?? []
  if (relays.length > 0) {
    return {
      code: 'BEHIND_NAT',
      severity: 'warning',
      title: 'others reach this node over relays alone: it is behind a NAT or a firewall',
      evidence: [
        `${dialBacks.failed} of ${dialBacks.asked} peers asked dialled back and did not get through`,
        ...relays.map(({ peer }) => `relay ${peer}`),
        `DHT ${dhtMode}`
      ],
      remedy: `nothing has to be done; for more speed ${OPEN_PORT}`
    }
  }
  return {
    code: 'BEHIND_NAT',
    severity: 'warning',
    title: 'others cannot open a connection to this node: it is behind a NAT or a firewall',
    evidence: [
      `${dialBacks.failed} of ${dialBacks.asked} peers asked dialled back and did not get through`,
      ...(reachability === undefined
        ? []
        : [`relays: ${reachability.relay === 'off' ? 'off by setting' : 'none has a place for this node'}`]),
      `DHT ${dhtMode}`
    ],
    remedy:
      reachability?.relay === 'off'
        ? 'set reachability.relay to auto, so that relays carry those who call'
        : `${OPEN_PORT}; or run a node with reachability.relayServer.enabled where everyone can dial it; until then keepers hold mail for your agents`
  }
}

function bootstrap({ peers, bootstrap }: NetworkFacts): NetworkFinding | undefined {
  const failed = bootstrap.filter(({ outcome }) => outcome === 'failed')
  if (peers === 0 || failed.length === 0) return undefined
  return {
    code: 'BOOTSTRAP_UNREACHED',
    severity: 'warning',
    title: `${failed.length} of ${bootstrap.length} bootstrap addresses cannot be reached`,
    evidence: failed.slice(0, SHOWN_MAX).map(({ addr, reason }) => `${addr}: ${reason ?? 'no answer'}`),
    remedy: 'take them out of bootstrap in the configuration, or start those nodes: after a restart this one may find nobody'
  }
}

function registrars({ faultyRegistrars, nowMs }: NetworkFacts): NetworkFinding | undefined {
  if (faultyRegistrars.length === 0) return undefined
  return {
    code: 'REGISTRARS_FAULTY',
    severity: 'warning',
    title: `registrars that hid or invented entries of spaces: ${faultyRegistrars.length}; what they served falsely was left out`,
    evidence: faultyRegistrars
      .slice(0, SHOWN_MAX)
      .map(
        ({ peer, hidden, invented, lastAtMs }) => `${peer}: hid ${hidden}, invented ${invented}, last ${duration(nowMs - lastAtMs)} ago`
      ),
    remedy: 'nothing has to be done: they are asked last for a day; if one of them is yours, update it and check its disk'
  }
}

/** The one in the middle of an ordered row, the lower of two. */
function middle(values: readonly number[]): number | undefined {
  return [...values].sort((a, b) => a - b)[(values.length - 1) >> 1]
}

function duration(ms: number): string {
  const sec = Math.max(0, Math.round(ms / 1_000))
  if (sec < 120) return `${sec} s`
  if (sec < 7_200) return `${Math.floor(sec / 60)} min`
  return sec < 172_800 ? `${Math.floor(sec / 3_600)} h` : `${Math.floor(sec / 86_400)} days`
}
