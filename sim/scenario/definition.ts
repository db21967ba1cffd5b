import { z } from 'zod'
import { parseDurationMs } from '../../src/config/units.ts'

/** What one file may ask of a machine; beyond it a scenario is split. */
const NODES_MAX = 100_000
const GROUPS_MAX = 32
const STEPS_MAX = 1_000
const DURATION_MAX_MS = 31 * 86_400_000
export const SEED_MAX = 2 ** 32 - 1

export const ENGINES = ['real', 'model'] as const
export type EngineKind = (typeof ENGINES)[number]

/** Continents; medians of round trips between them stand in `network/latency.ts`. */
export const REGIONS = ['africa', 'asia', 'europe', 'north-america', 'oceania', 'south-america'] as const
export type Region = (typeof REGIONS)[number]

export const ATTACKS = [
  'poisoned-records',
  'squatted-space',
  'sybil-space',
  'discovery-flood',
  'lying-registrars',
  'eclipse',
  'eclipse-locator',
  'slow-reader',
  'equivocator'
] as const
export type AttackName = (typeof ATTACKS)[number]

export const INVARIANTS = [
  'acked-kept',
  'notified-once',
  'hashes-agree',
  'no-expired-record',
  'cookie-before-state',
  'queue-bounds',
  'honest-found',
  'no-honest-blacklisted',
  'idle-memory-flat'
] as const
export type InvariantName = (typeof INVARIANTS)[number]

export const MEASURES = ['topology', 'latency', 'hops', 'success', 'traffic', 'queues', 'wakes'] as const
export type MeasureName = (typeof MEASURES)[number]

const duration = z
  .string()
  .regex(/^\d{1,10}(\.\d{1,3})?(ms|s|m|h|d)$/, 'must be a length of time with its unit, such as "500ms", "30s", "20m" or "1h"')
  .transform((text, context) => {
    const ms = parseDurationMs(text)
    if (ms !== undefined && ms <= DURATION_MAX_MS) return ms
    context.addIssue({ code: 'custom', message: 'must be whole milliseconds, at most 31d' })
    return z.NEVER
  })
  .meta({ description: 'a length of time with its unit: 500ms, 30s, 20m, 1h' })

const name = z.string().regex(/^[a-z][a-z0-9-]{0,63}$/, 'must be lower-case letters, digits and dashes, at most 64, a letter first')
const share = z.number().min(0).max(1)
const count = z.int().min(1).max(NODES_MAX)

const who = z
  .union([
    name.meta({ description: 'a group, or "everyone"' }),
    z.strictObject({
      group: name.optional().meta({ description: 'of this group; by default of everyone' }),
      node: z.int().min(0).max(NODES_MAX).optional().meta({ description: 'this one, by its place in the group' }),
      count: count.optional().meta({ description: 'so many, drawn by the seed' }),
      share: share.optional().meta({ description: 'this part, drawn by the seed' }),
      except: name.optional().meta({ description: 'none of this group' })
    })
  ])
  .meta({ description: 'which nodes' })

const space = z.string().min(3).max(200).meta({ description: 'ns/topic@version' })

const timing = {
  at: duration.optional().meta({ description: 'since the stage began' }),
  over: duration.optional().meta({ description: 'spread over this time by the seed; without it all at once' }),
  pace: duration.optional().meta({ description: 'one after the other, this far apart' }),
  atOnce: z.int().min(1).max(1_000).optional().meta({ description: 'at most so many under way' })
}

const verb = <N extends string, S extends z.ZodRawShape>(verbName: N, shape: S) =>
  z.strictObject({ do: z.literal(verbName), ...timing, ...shape })

export const stepSchema = z.discriminatedUnion('do', [
  verb('announce', { who, space }),
  verb('join', { who, space }),
  verb('leave', { who, space }),
  verb('discover', { who, space, by: z.enum(['topic', 'parent', 'turns', 'anonymous']).default('topic') }),
  verb('publish', { who }),
  verb('openSession', { who, to: who, pairs: count.optional() }),
  verb('send', {
    who,
    to: who,
    pairs: count.optional(),
    times: z.int().min(1).max(10_000).default(1),
    bytes: z.int().min(1).max(65_536).default(64)
  }),
  verb('sleep', { who, for: duration.optional() }),
  verb('wake', { who }),
  verb('kill', { who, for: duration.optional().meta({ description: 'and restarted after this time' }) }),
  verb('restart', { who }),
  verb('partition', { islands: z.array(z.array(name).min(1)).min(2).max(8).meta({ description: 'groups that still reach each other' }) }),
  verb('heal', {}),
  verb('attack', { attack: z.enum(ATTACKS), with: z.record(z.string(), z.number()).default({}) })
])
export type Step = z.output<typeof stepSchema>

const stageSchema = z.strictObject({
  stage: z.string().min(1).max(60),
  lasts: duration.optional().meta({ description: 'at least this long; churn and load need it' }),
  measured: z.boolean().default(false).meta({ description: 'its latencies are told' })
})

const loadSchema = z.strictObject({
  stage: z.string().min(1).max(60).meta({ description: 'during this stage, which must say how long it lasts' }),
  do: z.enum(['discover', 'send', 'openSession', 'join']),
  who,
  to: who.optional(),
  space: space.optional(),
  by: z.enum(['topic', 'parent', 'anonymous']).default('topic'),
  bytes: z.int().min(1).max(65_536).default(64),
  perSecond: z.number().min(0.001).max(10_000).meta({ description: 'of all of them together, at times drawn from a Poisson process' })
})

const churnSchema = z.strictObject({
  shape: z.number().min(0.1).max(5).default(0.6).meta({ description: 'of the Weibull that sessions are drawn from' }),
  scale: duration.meta({ description: 'of that Weibull: 63 % of the sessions are shorter' }),
  down: duration.meta({ description: 'mean time until it is back' })
})

const groupSchema = z.strictObject({
  group: name,
  count,
  region: z.enum([...REGIONS, 'everywhere']).default('europe'),
  behaviour: z.enum(['honest', 'hostile']).default('honest'),
  reachability: z.enum(['always_on', 'session', 'hourly_wake', 'sleep']).default('always_on'),
  wake: z
    .strictObject({
      period: duration.default(3_600_000),
      open: duration.default(300_000),
      jitter: z.boolean().default(true).meta({ description: 'each at its own second of the period, as the protocol says' })
    })
    .optional()
    .meta({ description: 'of hourly_wake' }),
  hardware: z.enum(['server', 'laptop', 'phone', 'sensor']).default('server').meta({ description: 'decides bandwidth' }),
  nat: z.enum(['none', 'cone', 'symmetric']).default('none'),
  churn: churnSchema.optional()
})
export type Group = z.output<typeof groupSchema>

const networkSchema = z.strictObject({
  latency: z
    .union([z.enum(['none', 'internet']), duration])
    .default('none')
    .meta({ description: 'none; medians between continents; or one way, the same for all' }),
  jitter: share.default(0).meta({ description: 'part of the latency, either way' }),
  loss: z.number().min(0).max(0.5).default(0).meta({ description: 'part of the packets; each lost one comes a retransmission later' }),
  bandwidth: z.boolean().default(false).meta({ description: 'links are as fast as their ends’ hardware' }),
  partitions: z
    .array(
      z.strictObject({ stage: z.string(), at: duration.default(0), for: duration, islands: z.array(z.array(name).min(1)).min(2).max(8) })
    )
    .max(16)
    .default([])
})

export const definitionSchema = z
  .strictObject({
    name,
    description: z.string().min(1).max(400),
    engine: z.enum(ENGINES).default('real'),
    seed: z.int().min(0).max(SEED_MAX).default(1),
    small: count.optional().meta({ description: 'nodes in `npm run sim:suite`' }),
    most: count.optional().meta({ description: 'nodes that it still makes sense with' }),
    nodes: z.array(groupSchema).min(1).max(GROUPS_MAX),
    network: networkSchema.prefault({}),
    timeline: z
      .array(z.union([stageSchema, stepSchema]))
      .min(1)
      .max(STEPS_MAX),
    load: z.array(loadSchema).max(GROUPS_MAX).default([]),
    invariants: z.partialRecord(z.enum(INVARIANTS), z.boolean()).default({}).meta({ description: 'all are on but those set to false' }),
    measure: z.array(z.enum(MEASURES)).default([...MEASURES])
  })
  .meta({ title: 'Rookery simulation scenario' })

/** A scenario as it is checked; times in milliseconds. */
export type Definition = z.output<typeof definitionSchema>
/** as a file says it */
export type DefinitionInput = z.input<typeof definitionSchema>

/** Editor support: what a scenario file may say. */
export function definitionJsonSchema(): object {
  return { $id: 'https://rookery.invalid/scenario.schema.json', ...z.toJSONSchema(definitionSchema, { io: 'input' }) }
}
