import type { AttackName, Group } from './definition.ts'

/** One thing that happens, said in nodes and times: what both engines do, what a log tells, what shrinking leaves out. Times since the stage began. */
export type SimEvent = { atMs: number } & SimAction

export type SimAction =
  | { do: 'announce' | 'join' | 'leave'; node: number; space: string }
  | { do: 'discover'; node: number; space: string; by: 'topic' | 'parent' | 'anonymous' }
  | { do: 'publish'; node: number }
  | { do: 'openSession'; node: number; to: number }
  | { do: 'send'; node: number; to: number; bytes: number; id: number }
  | { do: 'sleep'; node: number; forMs?: number }
  | { do: 'wake'; node: number }
  | { do: 'kill'; node: number }
  | { do: 'restart'; node: number }
  /** each list: nodes that still reach each other; who is in none reaches everyone */
  | { do: 'partition'; islands: readonly (readonly number[])[] }
  | { do: 'heal' }
  | { do: 'attack'; attack: AttackName; with: Readonly<Record<string, number>> }

export interface Lane {
  /** what its events say in a log and in progress */
  events: SimEvent[]
  /** least time between the starts of two of them */
  paceMs: number
  /** most under way; none: no bound */
  atOnce: number | undefined
}

export interface PlannedStage {
  name: string
  lastsMs: number
  measured: boolean
  /** each list keeps its own pace; all run side by side */
  lanes: Lane[]
}

export interface PlannedNode {
  index: number
  /** which of the file's groups */
  group: Group
  region: Exclude<Group['region'], 'everywhere'>
}

/** All that a scenario, a number of nodes and a seed decide. */
export interface Plan {
  nodes: PlannedNode[]
  stages: PlannedStage[]
}
