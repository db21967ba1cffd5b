import { parseSpaceName } from '../../protocol/discovery/names.ts'
import type { Definition, Step } from './definition.ts'

export interface WrongReference {
  path: PropertyKey[]
  message: string
}

export const EVERYONE = 'everyone'

/** What a schema cannot say: names that must exist, lengths that others need. The first thing wrong, undefined where all holds. */
export function checkReferences(scenario: Definition): WrongReference | undefined {
  const groups = new Set<string>()
  for (const [i, { group }] of scenario.nodes.entries()) {
    if (groups.has(group) || group === EVERYONE) return { path: ['nodes', i, 'group'], message: `the group ${group} is there already` }
    groups.add(group)
  }
  const known = [...groups, EVERYONE]
  const unknownGroup = (name: string | undefined, path: PropertyKey[]): WrongReference | undefined =>
    name === undefined || known.includes(name)
      ? undefined
      : { path, message: `there is no group "${name}"; known here: ${known.join(', ')}` }
  const wrongWho = (who: unknown, path: PropertyKey[]): WrongReference | undefined => {
    if (who === undefined) return undefined
    if (typeof who === 'string') return unknownGroup(who, path)
    const { group, except } = who as { group?: string; except?: string }
    return unknownGroup(group, [...path, 'group']) ?? unknownGroup(except, [...path, 'except'])
  }
  const wrongSpace = (space: unknown, path: PropertyKey[]): WrongReference | undefined => {
    if (typeof space !== 'string') return undefined
    try {
      parseSpaceName(space)
      return undefined
    } catch (error) {
      return { path, message: error instanceof Error ? error.message : String(error) }
    }
  }
  const wrongStep = (step: Step, path: PropertyKey[]): WrongReference | undefined => {
    const islands = step.do === 'partition' ? step.islands : []
    for (const [i, island] of islands.entries()) {
      for (const [j, name] of island.entries()) {
        const wrong = unknownGroup(name, [...path, 'islands', i, j])
        if (wrong !== undefined) return wrong
      }
    }
    return (
      wrongWho('who' in step ? step.who : undefined, [...path, 'who']) ??
      wrongWho('to' in step ? step.to : undefined, [...path, 'to']) ??
      wrongSpace('space' in step ? step.space : undefined, [...path, 'space'])
    )
  }
  const stages = new Map<string, { lastsMs: number | undefined }>()
  for (const [i, entry] of scenario.timeline.entries()) {
    if ('stage' in entry) {
      if (stages.has(entry.stage)) return { path: ['timeline', i, 'stage'], message: `the stage "${entry.stage}" is there already` }
      stages.set(entry.stage, { lastsMs: entry.lasts })
    } else {
      if (stages.size === 0) return { path: ['timeline', i], message: 'a timeline begins with a stage' }
      const wrong = wrongStep(entry, ['timeline', i])
      if (wrong !== undefined) return wrong
    }
  }
  for (const [i, load] of scenario.load.entries()) {
    const stage = stages.get(load.stage)
    if (stage === undefined) return { path: ['load', i, 'stage'], message: `there is no stage "${load.stage}"` }
    if (stage.lastsMs === undefined)
      return { path: ['load', i, 'stage'], message: `the stage "${load.stage}" does not say how long it lasts` }
    if ((load.do === 'discover' || load.do === 'join') && load.space === undefined)
      return { path: ['load', i], message: `${load.do} needs a space` }
    if ((load.do === 'send' || load.do === 'openSession') && load.to === undefined)
      return { path: ['load', i], message: `${load.do} needs "to"` }
    const wrong =
      wrongWho(load.who, ['load', i, 'who']) ?? wrongWho(load.to, ['load', i, 'to']) ?? wrongSpace(load.space, ['load', i, 'space'])
    if (wrong !== undefined) return wrong
  }
  for (const [i, { stage, islands }] of scenario.network.partitions.entries()) {
    if (!stages.has(stage)) return { path: ['network', 'partitions', i, 'stage'], message: `there is no stage "${stage}"` }
    for (const [j, island] of islands.entries()) {
      for (const [k, name] of island.entries()) {
        const wrong = unknownGroup(name, ['network', 'partitions', i, 'islands', j, k])
        if (wrong !== undefined) return wrong
      }
    }
  }
  return undefined
}
