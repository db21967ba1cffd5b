import { existsSync } from 'node:fs'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import type { LoadedConfig } from '../config/load.ts'
import { type BoundUse, boundText } from '../ops/bounds.ts'
import type { Clock } from '../platform/clock.ts'
import { volumeSpace } from '../platform/files.ts'
import type { Random } from '../platform/random.ts'
import { identityFindings, leftoverFindings, modeFindings, storeFindings } from './examine-data-dir.ts'
import { bootstrapFindings, clockFindings, configFindings, diskFindings, portFindings } from './examine-machine.ts'
import type { Fixable, LocalFinding } from './finding.ts'

export interface Examined {
  /** the worst first; what was mended is marked */
  findings: (LocalFinding & { fixed: boolean })[]
  running: boolean
}

export interface Examination {
  dataDir: string
  load: () => LoadedConfig
  /** what the running node says of itself; undefined where none runs */
  running: { drainHeld?: string | undefined; boundsNear?: readonly BoundUse[] | undefined } | undefined
  software: string
  space?: (path: string) => Promise<{ freeBytes: number; totalBytes: number }>
}

/**
 * Looks at a data directory and the machine under it, whether a node runs or not.
 * @param how - `fix`: what each finding says under `fix` is done; nothing that holds content is removed
 */
export async function examineLocally(
  components: { clock: Clock; crypto: CryptoProvider; random: Random },
  { dataDir, load, running, software, space = volumeSpace }: Examination,
  how: 'look' | 'fix'
): Promise<Examined> {
  const { clock } = components
  const found: Fixable[] = identityFindings(dataDir, components)
  const settings = configFindings(load)
  if ('finding' in settings) found.push(settings.finding)
  const loaded = 'loaded' in settings ? settings.loaded : undefined
  if (existsSync(dataDir)) {
    found.push(...modeFindings(dataDir), ...clockFindings(dataDir, clock.nowMs()))
    found.push(...diskFindings(await space(dataDir), loaded?.config.store.reserveBytes))
    if (running === undefined) found.push(...leftoverFindings(dataDir), ...(await storeFindings(dataDir, software)))
  }
  if (running?.drainHeld !== undefined) found.push(heldFinding(running.drainHeld))
  found.push(...(running?.boundsNear ?? []).map(boundFinding))
  if (loaded !== undefined) {
    found.push(...bootstrapFindings(loaded))
    if (running === undefined) found.push(...(await portFindings(loaded)))
  }
  const findings = found.map(({ mend, ...finding }) => {
    if (how === 'look' || mend === undefined) return { ...finding, fixed: false }
    mend()
    return { ...finding, fixed: true }
  })
  return {
    findings: findings.sort((a, b) => Number(a.severity === 'warning') - Number(b.severity === 'warning')),
    running: running !== undefined
  }
}

function heldFinding(why: string): Fixable {
  return {
    code: 'QUEUES_HELD',
    severity: 'problem',
    title: 'no queue is handed over: the clock reads too early',
    evidence: [why],
    remedy: 'set the clock; if it is right as it is, `rookery wake AGENT --trust-clock` says so'
  }
}

function boundFinding(use: BoundUse): Fixable {
  const isReached = use.used >= use.max
  return {
    code: 'BOUND_NEAR',
    severity: isReached ? 'problem' : 'warning',
    title: isReached ? `the bound of ${use.bound} is reached: ${use.beyond}` : `the bound of ${use.bound} is nearly reached`,
    evidence: [boundText(use)],
    remedy: `see what fills it, or raise \`${use.setting}\`; how far one node grows, and what it takes, is told in docs/scale.md`
  }
}
