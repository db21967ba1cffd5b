import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { definitionJsonSchema } from './definition.ts'
import { parseScenario } from './parse.ts'
import { defaultNodes, planOf } from './plan.ts'
import { loadScenario, shippedNames } from './shipped.ts'

const HEAD = `name: mine
description: Mine.
nodes:
  - { group: all, count: 4 }
`

describe('a scenario file', () => {
  it('comes with the package for each scenario that the design names', () => {
    expect(shippedNames()).toEqual(
      expect.arrayContaining([
        ...['first-contact', 'rush-hour', 'churn', 'sleepers', 'sleepers-without-jitter', 'split-brain', 'eclipse', 'sybil-space'],
        ...['poisoned-records', 'discovery-flood', 'equivocator', 'slow-reader', 'crash-storm', 'internet']
      ])
    )
  })

  it.each(shippedNames())('is sound, named as its file, and planned the same for the same seed: %s', (name) => {
    const scenario = loadScenario(name)
    expect(scenario.name).toBe(name)
    const nodes = Math.min(40, defaultNodes(scenario))
    expect(planOf(scenario, nodes, 7)).toEqual(planOf(scenario, nodes, 7))
    expect(planOf(scenario, nodes, 7).nodes).toHaveLength(nodes)
  })

  it('has the published schema', () => {
    const published = JSON.parse(readFileSync(new URL('../scenario.schema.json', import.meta.url), 'utf8'))
    expect(published).toEqual(JSON.parse(JSON.stringify(definitionJsonSchema())))
    expect(published).toMatchObject({
      type: 'object',
      required: expect.arrayContaining(['name', 'nodes', 'timeline']),
      additionalProperties: false
    })
  })

  it.each<[string, string, number, number, RegExp]>([
    ['a verb that is none', `${HEAD}timeline:\n  - stage: one\n  - { do: jion, who: all, space: a/b@1 }\n`, 7, 7, /do/],
    ['a member too many', `${HEAD}timeline:\n  - { stage: one, laste: 3s }\n`, 6, 19, /laste is not a known name/],
    ['a space that is missing', `${HEAD}timeline:\n  - stage: one\n  - { do: join, who: all }\n`, 7, 5, /space is missing/],
    ['a length of time without a unit', `${HEAD}timeline:\n  - { stage: one, lasts: 3 }\n`, 6, 19, /lasts/],
    [
      'a group that is none',
      `${HEAD}timeline:\n  - stage: one\n  - { do: publish, who: some }\n`,
      7,
      20,
      /no group "some"; known here: all, everyone/
    ],
    ['a space with a bad name', `${HEAD}timeline:\n  - stage: one\n  - { do: join, who: all, space: 'Äpfel' }\n`, 7, 27, /./],
    ['a step before any stage', `${HEAD}timeline:\n  - { do: publish, who: all }\n`, 6, 5, /begins with a stage/],
    [
      'a load on a stage without a length',
      `${HEAD}timeline:\n  - stage: one\nload:\n  - { stage: one, do: discover, who: all, space: o.a/b@1, perSecond: 1 }\n`,
      8,
      7,
      /how long it lasts/
    ],
    ['YAML that is none', `${HEAD}timeline: [\n`, 6, 1, /./],
    ['a count of none', HEAD.replace('4', '0'), 4, 19, /count must be at least 1/],
    ['an alias', 'a: &x 1\nb: *x\n', 1, 1, /aliases/]
  ])('is refused with line and column for %s', (_what, text, line, column, message) => {
    expect(() => parseScenario(text, 'mine.yaml')).toThrow(
      expect.objectContaining({
        code: 'SCENARIO_INVALID',
        kind: 'config',
        field: `mine.yaml:${line}:${column}`,
        message: expect.stringMatching(message),
        remedy: expect.any(String),
        data: expect.objectContaining({ file: 'mine.yaml', line, column })
      })
    )
  })

  it('keeps the shares of its groups at another size', () => {
    const { nodes } = planOf(loadScenario('hostile'), 50, 1)
    expect(nodes.filter(({ group }) => group.behaviour === 'hostile')).toHaveLength(10)
  })

  it('brings everyone back by the end of a stage with churn, and never takes the first node', () => {
    const plan = planOf(loadScenario('churn'), 60, 3)
    const events = plan.stages.flatMap(({ lanes }) => lanes.flatMap(({ events: list }) => list))
    const of = (verb: string) =>
      events
        .filter((event) => event.do === verb)
        .map((event) => (event as { node: number }).node)
        .sort((a, b) => a - b)
    expect(of('kill').length).toBeGreaterThan(0)
    expect(of('kill')).toEqual(of('restart'))
    expect(of('kill')).not.toContain(0)
  })
})
