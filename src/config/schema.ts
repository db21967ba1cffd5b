import { multiaddr } from '@multiformats/multiaddr'
import { z } from 'zod'
import { MODE_WORDS, modeOf, type ReachabilityMode } from '../../protocol/delivery/modes.ts'
import { handlerName } from '../api/methods.ts'
import { BURST_MAX, GRANT_TTL_MAX_MS, PER_MIN_MAX, SEND_BURST_DEFAULT, SEND_PER_MIN_DEFAULT } from '../grants/grant.ts'
import { REGISTRY_BYTES_MAX, REGISTRY_PUTS_PER_MINUTE_MAX } from '../spaces/registry-bounds.ts'
import { TODOS_DEFAULTS } from '../tasks/settings.ts'
import { blockOf, contractOffer } from './contract.ts'
import { executionContract, executionPolicy } from './edge-cloud.ts'
import { duration } from './units.ts'

const SECOND = 1_000
const DAY = 86_400_000

/** The ports that are tried first; another is taken where one is in use, unless it was set by hand (F094). */
export const DEFAULT_HTTP_PORT = 4710
export const DEFAULT_P2P_PORT = 4711
export const DEFAULT_OPS_PORT = 4712

function isMultiaddr(text: string): boolean {
  try {
    multiaddr(text)
    return true
  } catch {
    return false
  }
}

const address = z
  .string()
  .max(512)
  .refine(isMultiaddr, { error: 'must be a multiaddr such as "/ip4/0.0.0.0/udp/4711/quic-v1"', abort: true })

const peerAddress = address.refine((text) => /\/p2p\/[1-9A-HJ-NP-Za-km-z]+$/.test(text), {
  error: 'must end in the PeerId of the node: "/ip4/192.0.2.7/udp/4711/quic-v1/p2p/12D3Koo…" (see `rookery status` there)'
})

/** A union tells nothing of the member that is wrong; this does. */
const contractIssue: z.core.$ZodErrorMap = ({ input }) => {
  if (typeof input !== 'object' || input === null) return 'must be "off" or the block to offer, such as {} for the default one'
  const issue = contractOffer.safeParse(input).error?.issues[0]
  const at = issue === undefined ? '' : [...issue.path, ...(issue.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : [])].join('.')
  return `is no block: ${at} ${issue?.message ?? ''}`.trimEnd()
}

const contractSetting = z.union([z.literal('off'), contractOffer.transform(blockOf)], { error: contractIssue })

/** Private addresses are never reachable from elsewhere: plain HTTP with bearer tokens stays on this machine. */
const loopback = z.string().refine((text) => text === '::1' || text === 'localhost' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(text), {
  error: 'must be a loopback address (127.0.0.1, ::1 or localhost); to serve others put a TLS proxy in front and set http.publicUrl'
})

/** Settings are shown, logged and, as `http.publicUrl`, published: none of them is a place for a secret. */
function holdsCredentials(text: string): boolean {
  return URL.canParse(text) && (new URL(text).username !== '' || new URL(text).password !== '')
}

const publicUrl = z
  .url({ protocol: /^https?$/, error: 'must be an http or https URL' })
  .max(512)
  .refine((text) => !holdsCredentials(text), { error: 'must hold no user name and no password', abort: true })
  .refine((text) => !/[?#]/.test(text), { error: 'must hold no query and no fragment' })

const LOOPBACK_HOST = /^(127(\.\d{1,3}){3}|localhost|\[::1\])$/

/** Spans name tasks and agents: in clear they go to this machine alone. */
const collector = z
  .url({ protocol: /^https?$/, error: 'must be an http or https URL' })
  .max(512)
  .refine((text) => !holdsCredentials(text), { error: 'must hold no user name and no password', abort: true })
  .refine((text) => !URL.canParse(text) || text.startsWith('https:') || LOOPBACK_HOST.test(new URL(text).hostname), {
    error: 'must be https, or http to a loopback address such as "http://127.0.0.1:4318/v1/traces"'
  })

const logLevel = z.enum(['debug', 'info', 'warn', 'error', 'silent'])

const agentDid = z.string().regex(/^did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{40,60}$/, 'must be a did:key of an Ed25519 key')

const approvalRule = z.strictObject({
  /** written into every task that it approves */
  name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'must be 1 to 32 characters of a-z, 0-9 and "-"'),
  /** a local agent; absent: all of them */
  agent: z.string().min(1).max(32).optional(),
  from: z.array(agentDid).min(1).max(256)
})

/**
 * A node's settings as they stand in `config.yaml`. Every one has a default; unknown names are refused. Lengths of time are text with a unit
 * and come out in milliseconds.
 */
export const configSchema = z.strictObject({
  /** where keys, store and queue lie; undefined only with an in-memory store */
  dataDir: z.string().min(1).max(4_096).optional(),
  /**
   * `lan`: private and loopback addresses are published and dialled; `public`: only addresses that the whole internet can reach.
   * `lan` by default, since a node without a bootstrap list can meet nobody else.
   */
  network: z.enum(['lan', 'public']).default('lan'),
  /** absent: QUIC and TCP on all interfaces, port 4711 or, where that is taken, any other; a port set here by hand must be free */
  listen: z.array(address).min(1).max(16).optional(),
  /** addresses to publish in place of those found */
  announce: z.array(address).max(8).default([]),
  bootstrap: z.array(peerAddress).max(64).default([]),
  /** find nodes of the same link by multicast DNS */
  mdns: z.boolean().default(false),
  dht: z
    .strictObject({
      /** `auto`: serves the DHT while peers can reach this node, else only asks; `client` never serves */
      mode: z.enum(['server', 'client', 'auto']).default('auto'),
      /** replicas of a record, size of a bucket */
      k: z.int().min(4).max(40).default(20),
      /** requests in flight a path of a look-up */
      alpha: z.int().min(1).max(16).default(3),
      disjointPaths: z.int().min(1).max(16).default(2)
    })
    .prefault({}),
  /** how others reach this node where they cannot simply dial it (docs/reachability.md) */
  reachability: z
    .strictObject({
      /** peers are asked whether they can dial this node; what they say decides of relays and of `dht.mode` `auto` */
      autonat: z.boolean().default(true),
      /** `auto`: places at relays while others cannot dial this node; `always`: in any case; `off`: never */
      relay: z.enum(['auto', 'always', 'off']).default('auto'),
      /** carrying connections of others: for nodes that everyone can dial, by their operator's wish */
      relayServer: z
        .strictObject({
          enabled: z.boolean().default(false),
          /** nodes that hold a place at a time */
          reservationsMax: z.int().min(1).max(10_000).default(64),
          /** bytes that one carried connection brings, both ways together */
          bytesMax: z
            .int()
            .min(65_536)
            .max(16 * 2 ** 30)
            .default(32 * 1_048_576),
          /** how long one carried connection lasts */
          duration: duration({ minMs: 10 * SECOND, maxMs: DAY }).prefault('30m')
        })
        .transform(({ duration, ...rest }) => ({ ...rest, durationMs: duration }))
        .prefault({}),
      /** try for a direct connection in place of a carried one */
      dcutr: z.boolean().default(true),
      /** ask the router for a port by UPnP; it changes a device that is not this machine's, so it is said here */
      upnp: z.boolean().default(false)
    })
    .prefault({}),
  /** registrars of a key, protocol/README.md §4 */
  registrarsMax: z.int().min(1).max(20).default(20),
  /** what this node keeps for others as a registrar, protocol/README.md §4 */
  registry: z
    .strictObject({
      /** of all entries together, some 200 each beside its record; above it a new one is answered `full` */
      bytesMax: z
        .int()
        .min(1_048_576)
        .max(64 * 2 ** 30)
        .default(REGISTRY_BYTES_MAX),
      /** new or changed entries a minute from one PeerId and from one /24 or /48; more are answered `full` */
      putsPerMinuteMax: z.int().min(1).max(1_000_000).default(REGISTRY_PUTS_PER_MINUTE_MAX)
    })
    .prefault({}),
  connectionsMax: z.int().min(8).max(10_000).default(300),
  sessionsMax: z.int().min(1).max(100_000).default(1_000),
  sessions: z
    .strictObject({
      /** the block offered to a caller that asks for a contract; `off`: a plain session is offered in its place. `{}`: the default block */
      contract: contractSetting.default('off'),
      /** in its place, for single agents by name */
      contracts: z.partialRecord(z.string().min(1).max(32), contractSetting).default({})
    })
    .prefault({}),
  discovery: z
    .strictObject({
      /** carry and answer anonymous requests of others */
      serve: z.enum(['yes', 'no']).default('yes'),
      /** whether our agents answer those that mean them */
      answer: z.enum(['yes', 'no']).default('yes'),
      /** requests under way at once; the more there are, the more work a further one must bring */
      queueMax: z.int().min(8).max(65_536).default(256)
    })
    .prefault({}),
  /** points of this link alone (ESE-06 … ESE-08); off unless it is said here */
  localPoints: z
    .strictObject({
      enabled: z.boolean().default(false),
      /** the IPv4 address of the interface; absent: all */
      interface: z.ipv4().optional(),
      /** names of agents that live on the link alone: no locator, no space, no global point */
      agents: z.array(z.string().min(1).max(64)).max(64).default([]),
      /** `yes`: agents that the whole network knows may have local points too */
      global: z.enum(['no', 'yes']).default('no')
    })
    .prefault({}),
  groups: z
    .strictObject({
      /** whose invitations our agents follow */
      accept: z.enum(['anyone', 'nobody']).default('anyone')
    })
    .prefault({}),
  http: z
    .strictObject({
      enabled: z.boolean().default(true),
      host: loopback.default('127.0.0.1'),
      /** absent: 4710 or the next free one; set by hand it must be free; 0: any */
      port: z.int().min(0).max(65_535).optional(),
      /** what the agent card tells, where a proxy stands in front */
      publicUrl: publicUrl.optional(),
      bodyBytesMax: z
        .int()
        .min(1_024)
        .max(64 * 1_048_576)
        .default(1_048_576),
      /** answer callers of A2A 0.3 too, over JSON-RPC */
      legacy: z.boolean().default(false)
    })
    .prefault({}),
  /** streams of tasks (A2A's SendStreamingMessage and SubscribeToTask), over every binding */
  streams: z
    .strictObject({
      enabled: z.boolean().default(true),
      /** open at a time, of one caller; above it 429 */
      perCallerMax: z.int().min(1).max(100_000).default(8),
      /** in all */
      nodeMax: z.int().min(1).max(100_000).default(256)
    })
    .prefault({}),
  /** health, metrics and the dashboard, for the operator of this machine */
  ops: z
    .strictObject({
      enabled: z.boolean().default(true),
      host: loopback.default('127.0.0.1'),
      /** absent: 4712 or the next free one; set by hand it must be free; 0: any */
      port: z.int().min(0).max(65_535).optional(),
      /** the page at /dashboard, for who `rookery dashboard` signs in */
      dashboard: z.boolean().default(true),
      /** any process of this machine may read the metrics, so they tell agents by name only where it is said here */
      agentLabels: z.boolean().default(false)
    })
    .prefault({}),
  queue: z
    .strictObject({
      messagesMax: z.int().min(1).max(1_000_000).default(500),
      bytesMax: z
        .int()
        .min(1_024)
        .max(16 * 2 ** 30)
        .default(2 * 1_048_576),
      messagesPerPeerMax: z.int().min(1).max(1_000_000).default(50),
      ttlMax: duration({ minMs: SECOND, maxMs: 30 * DAY }).prefault('7d')
    })
    .transform(({ ttlMax, ...rest }) => ({ ...rest, ttlMaxMs: ttlMax }))
    .prefault({}),
  /** what our agents send with `rookery send --outbox`, until it is delivered or ends */
  outbox: z
    .strictObject({
      messagesMax: z.int().min(1).max(100_000).default(1_000),
      bytesMax: z
        .int()
        .min(1_024)
        .max(16 * 2 ** 30)
        .default(16 * 1_048_576),
      messagesPerAudienceMax: z.int().min(1).max(100_000).default(200),
      ttlMax: duration({ minMs: SECOND, maxMs: 6 * DAY }).prefault('6d'),
      /** of how many of an audience's keepers a receipt is wanted while its host is away */
      copies: z.int().min(1).max(4).default(2)
    })
    .transform(({ ttlMax, ...rest }) => ({ ...rest, ttlMaxMs: ttlMax }))
    .prefault({}),
  /** agents on other nodes, by DID, that hold sealed mail for ours while this host is away; published in their locators. Nobody unless it is said here */
  keepers: z.array(agentDid).max(4).default([]),
  /** for whom this node holds sealed mail, within bounds for each of them; for nobody unless it is said here */
  keeper: z
    .strictObject({
      for: z.array(agentDid).max(256).default([]),
      messagesMax: z.int().min(1).max(1_000_000).default(500),
      bytesMax: z
        .int()
        .min(1_024)
        .max(16 * 2 ** 30)
        .default(2 * 1_048_576),
      messagesPerPeerMax: z.int().min(1).max(1_000_000).default(50),
      ttlMax: duration({ minMs: SECOND, maxMs: 30 * DAY }).prefault('7d')
    })
    .transform(({ ttlMax, ...rest }) => ({ ...rest, ttlMaxMs: ttlMax }))
    .prefault({}),
  /** vended endpoints: who may give our agents work (docs/grants.md) */
  grants: z
    .strictObject({
      /** `required`: agents of other nodes need a grant for anything but the card; `anyone`: whoever can reach this node may do with its agents as with a grant */
      peers: z.enum(['required', 'anyone']).default('required'),
      /** whose friend requests are shown to the owner */
      requests: z.enum(['anyone', 'nobody']).default('anyone'),
      /** tasks that one grant makes at once, and a minute after that; set for one grant by `rookery grant tune` */
      sendBurst: z.int().min(1).max(BURST_MAX).default(SEND_BURST_DEFAULT),
      sendPerMin: z.int().min(1).max(PER_MIN_MAX).default(SEND_PER_MIN_DEFAULT),
      /** life of a grant where none is given */
      ttl: duration({ minMs: SECOND, maxMs: GRANT_TTL_MAX_MS }).prefault('90d')
    })
    .transform(({ ttl, ...rest }) => ({ ...rest, ttlMs: ttl }))
    .prefault({}),
  /** webhooks of callers, told of their tasks' events (docs/grants.md) */
  push: z
    .strictObject({
      enabled: z.boolean().default(true),
      /** whom callers may have this node call: hosts of the internet by https; this machine too, also by http; internal networks too */
      targets: z.enum(['public', 'loopback', 'internal']).default('public'),
      /** ports of hosts of the internet */
      ports: z.array(z.int().min(1).max(65_535)).min(1).max(64).default([443])
    })
    .prefault({}),
  tasks: z
    .strictObject({
      /** a worker that lost its process frees its task after this */
      lease: duration({ minMs: SECOND, maxMs: DAY }).prefault('30s'),
      /** how long a caller that waits for a task is held at most */
      waitMax: duration({ minMs: SECOND, maxMs: 10 * 60 * SECOND }).prefault('5m'),
      /** a task that waits for an answer fails after this; 0s: never */
      interrupt: duration({ minMs: 0, maxMs: 365 * DAY }).prefault('7d'),
      /** tasks that are not over, in all and of one caller; above it TODO_LIMIT */
      openMax: z.int().min(1).max(1_000_000).default(TODOS_DEFAULTS.openMax),
      openPerCallerMax: z.int().min(1).max(1_000_000).default(TODOS_DEFAULTS.openPerCallerMax),
      /** attempts at a task; when the last one fails it lies among the dead letters */
      attemptsMax: z.int().min(1).max(100).default(3),
      /** wait after the first failed attempt, twice as long after each further one, up to the last */
      retryFirst: duration({ minMs: 0, maxMs: DAY }).prefault('1s'),
      retryLast: duration({ minMs: 0, maxMs: DAY }).prefault('5m')
    })
    .transform(({ lease, waitMax, interrupt, retryFirst, retryLast, ...rest }) => ({
      ...rest,
      leaseMs: lease,
      waitMaxMs: waitMax,
      interruptMs: interrupt,
      retryFirstMs: retryFirst,
      retryLastMs: retryLast
    }))
    .prefault({}),
  delivery: z
    .strictObject({
      /** tasks a second that a wake makes of what waited, so that it does not fall on the agent at once */
      drainPerSec: z.int().min(1).max(100_000).default(200),
      /**
       * how refusals of a sleeping agent look: `auto` goes by the caller (protocol/README.md §7), any other is given to all. The number is that of
       * `agent_asleep` in JSON-RPC for callers of A2A 1.0
       */
      refusalForm: z.enum(['auto', 'plain', 'a2a', 'extension']).default('auto'),
      asleepRpcCode: z.int().min(-32_768).max(-31_000).default(-31_003),
      /** whose queued messages may have lasting effects on a wake without the owner's word each time (OD-40) */
      approve: z.array(approvalRule).max(64).default([])
    })
    .prefault({}),
  cards: z
    .strictObject({
      /** cards of agents on other nodes: `required` refuses one that its agent did not sign, `log` takes it and says so (ECC-12) */
      verify: z.enum(['required', 'log']).default('required')
    })
    .prefault({}),
  /** the edge-cloud capability contract (docs/edge-cloud-contract.md) */
  edgeCloud: z
    .strictObject({
      /** of our agents, by name; an agent without one does not know the extension */
      contracts: z.partialRecord(z.string().min(1).max(32), executionContract).default({}),
      /** what every request of ours with requirements must demand at least */
      policy: executionPolicy.prefault({})
    })
    .prefault({}),
  /** OpenTelemetry (docs/tracing.md) */
  tracing: z
    .strictObject({
      enabled: z.boolean().default(false),
      /** the collector's OTLP/HTTP address for traces */
      endpoint: collector.default('http://127.0.0.1:4318/v1/traces'),
      /** share of the traces that is recorded */
      ratio: z.number().min(0).max(1).default(1),
      /** `share`: other nodes are told the trace of a request, and theirs are followed; `keep`: nothing of traces leaves this node or comes in from others */
      peers: z.enum(['share', 'keep']).default('share')
    })
    .prefault({}),
  /** how long what has ended is kept, within the bounds of number and size (docs/care.md) */
  retention: z
    .strictObject({
      /** tasks, with their trail, their late results and their dead letter */
      tasks: duration({ minMs: 60_000, maxMs: 3_650 * DAY }).prefault('30d'),
      /** messages of the outbox */
      outbox: duration({ minMs: 60_000, maxMs: 365 * DAY }).prefault('7d'),
      /** webhooks whose task has ended */
      webhooks: duration({ minMs: 60_000, maxMs: 365 * DAY }).prefault('1d')
    })
    .transform(({ tasks, outbox, webhooks }) => ({ tasksMs: tasks, outboxMs: outbox, webhooksMs: webhooks }))
    .prefault({}),
  store: z
    .strictObject({
      /** bytes of the volume that nothing new may take; absent: 5 % of it, 16 to 64 MiB, a quarter of a small one */
      reserveBytes: z
        .int()
        .min(0)
        .max(1024 * 2 ** 30)
        .optional()
    })
    .prefault({}),
  /** what a new agent gets where `agent add` does not say */
  agents: z
    .strictObject({
      mode: z
        .enum(MODE_WORDS)
        .default('always_on')
        .transform((name) => modeOf(name) as ReachabilityMode),
      handler: handlerName.default('manual')
    })
    .prefault({}),
  logs: z
    .strictObject({
      level: logLevel.default('info'),
      /** by component, such as `a2a` or `sessions`; what is below a component goes with it */
      levels: z.record(z.string().regex(/^[a-z0-9-]+(:[a-z0-9-]+)*$/, 'must be names parted by ":", such as "a2a"'), logLevel).default({})
    })
    .prefault({})
})

/** Settings as a person or a program writes them. */
export type ConfigInput = z.input<typeof configSchema>
/** Settings with all defaults, lengths of time in milliseconds. */
export type Config = z.output<typeof configSchema>
