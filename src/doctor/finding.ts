/** Classes of what can be wrong with a node's own machine and data directory. */
export const LOCAL_FINDINGS = [
  'NOT_INITIALISED',
  'IDENTITY_MISSING',
  'KEY_FILE_INVALID',
  'FILE_MODES',
  'STALE_LOCK',
  'STALE_SOCKET',
  'LEFTOVER_FILES',
  'CONFIG_INVALID',
  'PORT_IN_USE',
  'CLOCK_WRONG',
  'QUEUES_HELD',
  'BOUND_NEAR',
  'DISK_FULL',
  'DISK_LOW',
  'STORE_DAMAGED',
  'BOOTSTRAP_MISSING'
] as const
export type LocalFindingCode = (typeof LOCAL_FINDINGS)[number]

/** One thing that is wrong, in words. `problem`: the node does not start or takes nothing; `warning`: it runs, and something will go wrong. */
export interface LocalFinding {
  code: LocalFindingCode
  severity: 'problem' | 'warning'
  /** what is wrong */
  title: string
  /** what was seen that says so */
  evidence: string[]
  /** what to do about it by hand */
  remedy: string
  /** what `doctor --fix` does about it; absent: nothing that could be done without a person's word */
  fix?: string
}

/** A finding with its mending. Nothing that holds content is ever removed by one. */
export interface Fixable extends LocalFinding {
  mend?: () => void
}
