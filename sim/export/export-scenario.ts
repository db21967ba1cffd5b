import { stringify } from 'yaml'
import type { Definition } from '../scenario/definition.ts'
import { planOf } from '../scenario/plan.ts'
import { composeFile } from './compose.ts'
import { kubernetesFile } from './kubernetes.ts'
import { shadowFile } from './shadow.ts'

export const EXPORTS = ['compose', 'kubernetes', 'shadow'] as const
export type ExportKind = (typeof EXPORTS)[number]

/** The name of the file that each is usually written to. */
export const EXPORT_FILES: Readonly<Record<ExportKind, string>> = {
  compose: 'compose.yaml',
  kubernetes: 'kubernetes.yaml',
  shadow: 'shadow.yaml'
}

export interface ExportOptions {
  nodes: number
  seed: number
  /** an image that has `rookery` on its path, and `tc` where links are shaped */
  image: string
}

/**
 * The nodes and the links of a scenario for an engine of others. Nodes start, find each other and serve; its timeline is left to whoever runs it, and
 * stands in the file as a comment.
 */
export function exportScenario(definition: Definition, kind: ExportKind, options: ExportOptions): string {
  const plan = planOf(definition, options.nodes, options.seed)
  const head = [
    `${definition.name}: ${definition.description}`,
    `${options.nodes} nodes, seed ${options.seed}; made by rookery sim export`,
    'The timeline of the scenario, to be played by whoever runs this:',
    ...stringify(definition.timeline)
      .trimEnd()
      .split('\n')
      .map((line) => `  ${line}`)
  ]
  const body = { compose: composeFile, kubernetes: kubernetesFile, shadow: shadowFile }[kind](definition, plan, options)
  return `${head.map((line) => `# ${line}`.trimEnd()).join('\n')}\n${body}`
}
