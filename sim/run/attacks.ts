import { eclipsedKey, eclipsedLocator } from '../hostile/attack-eclipse.ts'
import { equivocators } from '../hostile/attack-equivocator.ts'
import { discoveryFlood } from '../hostile/attack-flood.ts'
import { poisonedRecords } from '../hostile/attack-poison.ts'
import { lyingRegistrars } from '../hostile/attack-registrars.ts'
import { squattedSpace } from '../hostile/attack-squat.ts'
import { HeldStreams } from '../hostile/attack-streams.ts'
import { sybilSpace } from '../hostile/attack-sybils.ts'
import type { World } from '../hostile/world.ts'
import type { AttackName } from '../scenario/definition.ts'
import type { SimAction } from '../scenario/events.ts'

/** Settings of an attack, as the scenario names them; what it leaves out is as here. */
type Settings = Readonly<Record<string, number>>

/** An attack as a plug-in: run at its time; what it gives back is called when all else is over. */
export type Attack = (world: World, settings: Settings) => Promise<(() => Promise<void>) | undefined>

const once =
  (attack: (world: World, settings: Settings) => Promise<unknown>): Attack =>
  async (world, settings) => {
    await attack(world, settings)
    return undefined
  }

/** Every attack by its name in a scenario. One more is a line here and a word in the schema. */
export const ATTACK_PLUGINS: Readonly<Record<AttackName, Attack>> = {
  'poisoned-records': once((world) => poisonedRecords(world)),
  'squatted-space': once((world) => squattedSpace(world)),
  'sybil-space': once((world, { identities = 1_000, hosts = 20 }) => sybilSpace(world, { identities, hosts })),
  'discovery-flood': once((world, { lacking = 10_000, enough = 100 }) => discoveryFlood(world, { lacking, enough })),
  'lying-registrars': once((world, { shareLater = 0.3 }) => lyingRegistrars(world, { shareLater })),
  eclipse: once((world, { identities = 20, foundMin = 0.99 }) => eclipsedKey(world, { identities, foundMin })),
  'eclipse-locator': once((world, { identities = 20 }) => eclipsedLocator(world, { identities })),
  'slow-reader': async (world, { each = 4 }) => {
    const held = new HeldStreams(world)
    await held.begin(each)
    return () => held.end()
  },
  equivocator: once((world, { liars = 3 }) => equivocators(world, { liars }))
}

/** The attacks of one run. */
export class Attacks {
  readonly #world: () => World
  #made: World | undefined
  readonly #ends: (() => Promise<void>)[] = []

  constructor(world: () => World) {
    this.#world = world
  }

  async run({ attack, with: settings }: Extract<SimAction, { do: 'attack' }>): Promise<void> {
    this.#made ??= this.#world()
    const world = this.#made
    world.searches = settings.searches ?? world.searches
    const end = await ATTACK_PLUGINS[attack](world, settings)
    if (end !== undefined) this.#ends.push(end)
  }

  async end(): Promise<void> {
    for (const end of this.#ends.splice(0)) await end()
  }

  get world(): World | undefined {
    return this.#made
  }

  /** whether an attack made this node's agent contradict itself, or turned it later */
  isLiar(index: number): boolean {
    return this.#made?.hostile.some((node) => node.index === index) === true
  }
}
