import { errorJson } from '../../src/api/error-json.ts'
import { nodeStatus } from '../../src/api/node-status.ts'
import { BoundsWatch } from '../../src/ops/bounds.ts'
import { healthOf } from '../../src/ops/health.ts'
import { nodeMetrics } from '../../src/ops/metrics.ts'
import { LogRing } from '../../src/platform/log-ring.ts'
import { createLogger, type LeveledLogger } from '../../src/platform/pino-logger.ts'
import type { RookeryNode } from '../../src/rookery-node.ts'
import type { Said } from './figures.ts'
import type { Measurement } from './measurement.ts'

const LOG_WORDS_MAX = 12

/** What the operator of a node reads of it: log, status, health, metrics. */
export class Operator {
  readonly logs = new LogRing()
  readonly logger: LeveledLogger = createLogger({ level: 'info', sink: this.logs })

  /**
   * Looks as an operator would, and times the looking.
   * @param metrics - names of those that tell of what was grown
   * @param status - the members of the status that tell of it
   */
  async look(
    node: RookeryNode,
    run: Measurement,
    { at, metrics, status }: { at: string; metrics: RegExp; status: readonly string[] }
  ): Promise<Said[]> {
    new BoundsWatch(node, node).look() // as the daemon does every five seconds
    const seen = await run.timed(`rookery status, ${at}`, () => nodeStatus(node))
    const text = await run.timed(`/metrics, ${at}`, () => nodeMetrics(node, { process: 'left out', logger: this.logger }).text())
    const { checks } = await run.timed(`/readyz, ${at}`, () => healthOf(node))
    const bounds = seen.bounds
    const lines = status.map(
      (name) => `${name}: ${name in bounds ? bounds[name] : shown((seen as unknown as Record<string, unknown>)[name])}`
    )
    return [
      { where: 'status', words: lines.join(', ') },
      ...checks
        .filter(({ state }) => state !== 'ok')
        .map((check): Said => ({ where: 'health', words: `${check.name} (${check.state}): ${check.detail}` })),
      ...text
        .split('\n')
        .filter((line) => metrics.test(line) && !line.startsWith('#') && !line.endsWith(' 0'))
        .map((words): Said => ({ where: 'metrics', words })),
      ...this.lines()
    ]
  }

  /** Warnings and errors, each message once. */
  lines(): Said[] {
    const said = new Map<string, { count: number; words: string }>()
    for (const { level, component, message, fields } of this.logs.after(0, 2_000).records) {
      if (level !== 'warn' && level !== 'error') continue
      const name = `${level} ${component}: ${message}`
      said.set(name, { count: (said.get(name)?.count ?? 0) + 1, words: `${name} ${fields}`.trim() })
    }
    return [...said.values()]
      .slice(0, LOG_WORDS_MAX)
      .map(({ count, words }) => ({ where: 'log', words: count === 1 ? words : `${words} (${count} times)` }))
  }
}

/** A refusal in the words in which a caller gets it. */
export function refusal(error: unknown): Said {
  return { where: 'caller', words: JSON.stringify(errorJson(error)) }
}

function shown(value: unknown): string {
  return Array.isArray(value) ? `${value.length} entries` : JSON.stringify(value)
}
