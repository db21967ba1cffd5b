import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type CompactReport, compactStore, type DiskUse, diskUse } from '../../care/disk-use.ts'
import { RookeryError } from '../../errors.ts'
import { systemClock } from '../../platform/clock.ts'
import { volumeSpace } from '../../platform/files.ts'
import { openStore, STORE_DIR } from '../../store/open-store.ts'
import type { Store } from '../../store/store.ts'
import { version } from '../../version.ts'
import type { Invocation, RegisterCommand } from '../context.ts'
import { bytesText, counted, type Output } from '../output.ts'

export const registerDisk: RegisterCommand = (program, run) => {
  program
    .command('disk')
    .description('what the data directory holds, by kind; reads the whole store, also while no node runs')
    .addHelpText('after', '\nExample:\n  rookery disk --json')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const { dataDir, out } = invocation
        const use = await either(invocation, () => invocation.call('disk', {}), diskUse)
        const space = await volumeSpace(dataDir)
        out.result({ dataDir, ...use, ...space }, () => printUse(out, dataDir, use, space))
      })
    )
  program
    .command('compact')
    .description('give back the room of what was deleted or replaced; the node may go on meanwhile')
    .addHelpText(
      'after',
      `
LevelDB does this by itself as it goes on writing; this does it now, for all of the store. It needs about the room of the largest kind meanwhile.

Example:
  rookery compact`
    )
    .action((_options, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const report = await either(invocation, () => invocation.call('compact', {}), compactStore)
        out.result(report, () => printCompacted(out, report))
      })
    )
}

/** By the node where one runs, else from the folder itself. */
async function either<R extends DiskUse | CompactReport>(
  invocation: Invocation,
  running: () => Promise<R>,
  stopped: (of: { store: Store; dataDir: string }, options: { signal: AbortSignal; onProgress: (text: string) => void }) => Promise<R>
): Promise<R> {
  const { dataDir, out, signal } = invocation
  try {
    return await running()
  } catch (error) {
    if (!(error instanceof RookeryError) || error.code !== 'NODE_NOT_RUNNING') throw error
  }
  if (!existsSync(join(dataDir, STORE_DIR))) {
    throw new RookeryError('NODE_UNKNOWN', `no node has run in ${dataDir}`, {
      kind: 'notFound',
      field: '--data',
      value: dataDir,
      remedy: 'name its folder with --data'
    })
  }
  const store = await openStore(dataDir, { software: `rookery ${version}`, clock: systemClock })
  try {
    return await stopped({ store, dataDir }, { signal, onProgress: (text) => out.progress(text) })
  } finally {
    out.done()
    await store.close()
  }
}

function printUse(out: Output, dataDir: string, { files, rows, filesBytes }: DiskUse, space: { freeBytes: number }): void {
  out.line(`${out.paint.bold('data')}  ${dataDir}: ${bytesText(filesBytes)}; ${bytesText(space.freeBytes)} free on its volume`)
  out.line('')
  const there = files.filter(({ count }) => count > 0)
  out.table(
    ['FILES', 'COUNT', 'SIZE'],
    there.map(({ kind, count, bytes }) => [kind, String(count), bytesText(bytes)])
  )
  if (rows.length === 0) return
  out.line('')
  out.table(
    ['IN THE STORE', 'ROWS', 'SIZE BEFORE COMPRESSION'],
    rows.map((one) => [one.kind, String(one.rows), bytesText(one.bytes)])
  )
}

function printCompacted(out: Output, { beforeBytes, afterBytes, kinds }: CompactReport): void {
  const less = beforeBytes - afterBytes
  const what = less >= 0 ? `${bytesText(less)} given back` : `${bytesText(-less)} more, as what lay in the log was written out`
  out.line(`${out.paint.green('compacted')}  ${bytesText(beforeBytes)} before, ${bytesText(afterBytes)} now: ${what}`)
  out.line(`${counted(kinds.length, 'kind')} of rows, by the tables of LevelDB:`)
  out.table(
    ['KIND', 'BEFORE', 'AFTER'],
    kinds.map((one) => [one.kind, bytesText(one.beforeBytes), bytesText(one.afterBytes)])
  )
}
