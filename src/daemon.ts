import { controlHandlers, type Reload } from './api/control-handlers.ts'
import { type ControlServer, serveControl } from './api/control-server.ts'
import type { NodeStatus } from './api/methods.ts'
import { nodeStatus } from './api/node-status.ts'
import type { OperatorParts } from './api/operator-handlers.ts'
import type { LoadedConfig } from './config/load.ts'
import { reloadConfig } from './config/reload.ts'
import type { Config } from './config/schema.ts'
import { SignIns } from './dashboard/sign-ins.ts'
import { EXIT_CODES, RookeryError } from './errors.ts'
import { Traffic } from './net/traffic.ts'
import { type NodeOverrides, STOP_MS_MAX, startNode } from './node.ts'
import { BoundsWatch } from './ops/bounds.ts'
import { Observed } from './ops/observed.ts'
import { openOps } from './ops/open-ops.ts'
import { ProcessWatch } from './ops/process-watch.ts'
import { Vitals } from './ops/vitals.ts'
import { watchedHandlers } from './ops/watches.ts'
import { bothSinks, LogRing } from './platform/log-ring.ts'
import { silentLogger } from './platform/logger.ts'
import { createLogger } from './platform/pino-logger.ts'
import type { RookeryNode } from './rookery-node.ts'
import { writeLockFile } from './store/lock-file.ts'

/** A process that is still there this long after a stop began ends itself. */
const EXIT_MS_MAX = STOP_MS_MAX + 400

export interface DaemonOptions {
  /** the node answers from now on */
  onReady?: (status: NodeStatus) => void
  /** the settings as they stand now; absent: they cannot be read anew */
  reload?: () => Pick<LoadedConfig, 'config' | 'warnings'>
  overrides?: NodeOverrides
}

/**
 * Runs a node in the foreground until SIGINT, SIGTERM or a `stop` by the control API; the first signal stops cleanly within 5 s, a second ends
 * the process at once with 130. SIGHUP reads the settings anew, or stops where a terminal hangs up.
 * @returns the exit code
 * @throws RookeryError as {@link startNode}; `SOCKET_LOST` where the network cannot go on in this process
 */
export async function runDaemon(config: Config & { dataDir: string }, options: DaemonOptions = {}): Promise<number> {
  const logs = new LogRing()
  const own = options.overrides?.logger === undefined ? createLogger({ ...config.logs, sink: bothSinks(process.stderr, logs) }) : undefined
  const logger = options.overrides?.logger ?? own ?? silentLogger
  const { reload: read } = options
  const reload =
    read === undefined
      ? undefined
      : () => {
          const { config: next, warnings } = read()
          const changed = reloadConfig(config, next)
          own?.setLevels(config.logs)
          logger.info(changed, 'read the settings anew')
          return { ...changed, warnings }
        }
  const starting = new AbortController()
  let node: RookeryNode | undefined
  let lost: RookeryError | undefined
  let signals = 0
  const stopBy = (name: NodeJS.Signals) => {
    signals++
    if (signals > 1) process.exit(EXIT_CODES.interrupted)
    logger.info({ signal: name }, 'stopping; once more stops at once')
    setTimeout(() => process.exit(EXIT_CODES.internal), EXIT_MS_MAX).unref()
    starting.abort(new DOMException(`stopped by ${name}`, 'AbortError'))
    void node?.stop()
  }
  const byHangUp = () => {
    if (reload === undefined || process.stdin.isTTY === true) return stopBy('SIGHUP')
    try {
      reload()
    } catch (error) {
      logger.error({ error }, 'the settings cannot be read anew; the former ones stay in force')
    }
  }
  const names: NodeJS.Signals[] = ['SIGINT', 'SIGTERM']
  for (const name of names) process.on(name, stopBy)
  process.on('SIGHUP', byHangUp)
  try {
    const traffic = options.overrides?.traffic ?? new Traffic()
    const observed = options.overrides?.observed ?? new Observed()
    node = await startNode(config, { ...options.overrides, logger, traffic, observed, signal: starting.signal })
    const running = node
    try {
      const vitals = new Vitals(running, { traffic })
      const signIns = config.ops.enabled && config.ops.dashboard ? new SignIns(running) : undefined
      await openControl(running, config.dataDir, {
        vitals,
        observed,
        ...(reload === undefined ? {} : { reload }),
        ...(signIns === undefined ? {} : { signIns })
      })
      if (config.ops.enabled) {
        const dashboard = signIns === undefined ? {} : { dashboard: { signIns, vitals, ...(own === undefined ? {} : { logs }) } }
        running.opsUrl = (await openOps(running, { traffic, observed, logger: own, ...dashboard })).url
      }
      const end = (why: string) => {
        lost = new RookeryError('SOCKET_LOST', why, { kind: 'unavailable', remedy: 'start the node again; a service does so by itself' })
        logger.error({ err: lost }, 'the node ends: it cannot go on in this process')
        setTimeout(() => process.exit(EXIT_CODES.internal), EXIT_MS_MAX).unref()
        void running.stop()
      }
      const needsRestart = () => {
        const fault = running.host.fault?.()
        return fault?.needs === 'restart' ? fault.detail : undefined
      }
      const watch = new ProcessWatch(running, { jumped: () => running.clockJumped(), lost: { why: needsRestart, told: end } })
      watch.start()
      running.closeFirst('process watch', 50, () => watch.stop())
      const bounds = new BoundsWatch(running, running)
      bounds.start()
      running.closeFirst('bounds watch', 50, () => bounds.stop())
      options.onReady?.(await nodeStatus(running))
    } catch (error) {
      await running.stop()
      throw error
    }
    if (starting.signal.aborted) await running.stop()
    await running.stopped
    if (lost !== undefined) throw lost
    return EXIT_CODES.ok
  } catch (error) {
    if (starting.signal.aborted) return EXIT_CODES.ok
    throw error
  } finally {
    for (const name of names) process.off(name, stopBy)
    process.off('SIGHUP', byHangUp)
  }
}

/** Serves the control API of a node and writes `node.json`, which names this process to others. */
export async function openControl(
  node: RookeryNode,
  dataDir: string,
  { observed, ...daemon }: { reload?: Reload; observed?: Observed } & OperatorParts = {}
): Promise<ControlServer> {
  const { startedAtMs, logger, random, clock } = node
  const own = controlHandlers(node, daemon)
  const handlers = observed === undefined ? own : watchedHandlers(own, { clock, observed })
  const control = await serveControl({ handlers, logger, random }, { dataDir, startedAtMs })
  node.closeFirst('control API', 500, () => control.close())
  writeLockFile(dataDir, { startedAtMs, socket: control.address })
  return control
}
