import { eclipsedKey, eclipsedLocator } from '../hostile/attack-eclipse.ts'
import { discoveryFlood } from '../hostile/attack-flood.ts'
import { poisonedRecords } from '../hostile/attack-poison.ts'
import { lyingRegistrars } from '../hostile/attack-registrars.ts'
import { squattedSpace } from '../hostile/attack-squat.ts'
import { HeldStreams } from '../hostile/attack-streams.ts'
import { sybilSpace } from '../hostile/attack-sybils.ts'
import { World } from '../hostile/world.ts'
import type { Measured, Scenario, ScenarioRun } from './scenario.ts'

/** Part of the nodes that are hostile, and what they come to later where registrars lie. */
const SHARE = 0.2
const SHARE_LATER = 0.3
const ECLIPSE_IDENTITIES = 20

/** How much of each attack: a run of `searches` searches for each measure. */
interface Load {
  searches: number
  /** made-up identities, and the hostile nodes that bring them */
  sybils: number
  sybilHosts: number
  floodLacking: number
  floodEnough: number
  slowStreamsEach: number
  /** ground identities around an agent's locator; those around a space are always twenty */
  locatorIdentities: number
}

const USUAL: Load = {
  searches: 100,
  sybils: 1_000,
  sybilHosts: 20,
  floodLacking: 10_000,
  floodEnough: 100,
  slowStreamsEach: 4,
  locatorIdentities: ECLIPSE_IDENTITIES
}
/** For continuous integration: the same attacks, fewer times. */
const SHORT: Load = {
  searches: 12,
  sybils: 120,
  sybilHosts: 3,
  floodLacking: 500,
  floodEnough: 5,
  slowStreamsEach: 1,
  locatorIdentities: 8
}

type AttackName = keyof typeof ATTACKS

const ATTACKS = {
  poison: (world: World) => poisonedRecords(world),
  squat: (world: World) => squattedSpace(world),
  sybils: (world: World, load: Load) => sybilSpace(world, { identities: load.sybils, hosts: load.sybilHosts }),
  flood: (world: World, load: Load) => discoveryFlood(world, { lacking: load.floodLacking, enough: load.floodEnough }),
  registrars: (world: World) => lyingRegistrars(world, { shareLater: SHARE_LATER }),
  eclipse: (world: World) => eclipsedKey(world, { identities: ECLIPSE_IDENTITIES, foundMin: 0.99 }),
  locator: (world: World, load: Load) => eclipsedLocator(world, { identities: load.locatorIdentities })
} satisfies Record<string, (world: World, load: Load) => Promise<unknown>>

interface HostilePlan {
  name: string
  description: string
  /** one after the other */
  attacks: readonly AttackName[]
  /** slow and oversize streams hang on one honest node meanwhile */
  streams: 'held' | 'none'
  load: Load
  nodes: number
}

const EVERY_ATTACK: readonly AttackName[] = ['poison', 'squat', 'sybils', 'flood', 'registrars', 'eclipse', 'locator']

const PLANS: readonly HostilePlan[] = [
  {
    name: 'hostile',
    description: 'Every attack on one network of which 20 % are hostile, at the end 30 % and 20 ground identities more.',
    attacks: EVERY_ATTACK,
    streams: 'held',
    load: USUAL,
    nodes: 100
  },
  {
    name: 'hostile-short',
    description: 'As hostile, each attack smaller.',
    attacks: EVERY_ATTACK,
    streams: 'held',
    load: SHORT,
    nodes: 50
  },
  {
    name: 'poisoned-records',
    description: 'Forged, expired and replayed records are put to registrars and to holders of the DHT.',
    attacks: ['poison'],
    streams: 'none',
    load: USUAL,
    nodes: 100
  },
  {
    name: 'lying-registrars',
    description: '20 %, then 30 % of the nodes are registrars that hide, invent, replay, answer noise or nothing.',
    attacks: ['registrars'],
    streams: 'none',
    load: USUAL,
    nodes: 100
  },
  {
    name: 'eclipse',
    description:
      'Twenty identities, ground to be the nearest to one key, take every join of a space and show none; as many around the locator of an agent.',
    attacks: ['eclipse', 'locator'],
    streams: 'none',
    load: USUAL,
    nodes: 100
  },
  {
    name: 'squatted-space',
    description: 'Strangers announce the same DS_ID to every registrar, with members of their own.',
    attacks: ['squat'],
    streams: 'none',
    load: USUAL,
    nodes: 100
  },
  {
    name: 'sybil-space',
    description: 'A thousand made-up identities join one space from twenty hostile nodes at once.',
    attacks: ['sybils'],
    streams: 'none',
    load: USUAL,
    nodes: 100
  },
  {
    name: 'discovery-flood',
    description: 'Ten thousand anonymous requests without the work and a hundred with it, all to one node.',
    attacks: ['flood'],
    streams: 'none',
    load: USUAL,
    nodes: 100
  },
  {
    name: 'slow-streams',
    description: 'Streams that bring one byte and no more, and frames that claim 4 GiB, in every protocol of one node.',
    attacks: ['poison'],
    streams: 'held',
    load: USUAL,
    nodes: 100
  }
]

/** Networks with hostile nodes, each with the checks that honest ones must pass. */
export const hostileScenarios: readonly Scenario[] = PLANS.map((plan) => ({
  name: plan.name,
  description: plan.description,
  nodes: { min: 30, max: 500, default: plan.nodes },

  wanted: (): Measured => ({
    join: { wanted: 0, latenciesMs: [] },
    discovery: { wanted: 0, members: 0, latenciesMs: [], hops: [], membersFound: [] },
    sessions: { wanted: 0, opened: 0, handshakesMs: [], roundTripsMs: [] },
    checks: []
  }),

  run: (run, seed) => attackAll(plan, run, seed)
}))

async function attackAll({ attacks, streams, load }: HostilePlan, run: ScenarioRun, seed: number): Promise<void> {
  const { engine, log, measured, signal } = run
  const world = new World({ engine, seed, log, measured, share: SHARE, searches: load.searches, signal })
  const held = streams === 'held' ? new HeldStreams(world) : undefined
  try {
    if (held !== undefined) await log.phase('hold streams', 1, async () => void (await held.begin(load.slowStreamsEach)))
    for (const name of attacks) {
      await log.phase(`attack: ${name}`, 1, async (done) => {
        await run.measure<unknown>(() => ATTACKS[name](world, load))
        done()
      })
    }
    if (held !== undefined) await log.phase('what became of held streams', 1, async () => void (await held.end()))
  } finally {
    measured.checks = world.checks
  }
}
