import { resolve } from 'node:path'
import { restore } from '../../backup/backup.ts'
import { dataDirOf } from '../../config/load.ts'
import { RookeryError } from '../../errors.ts'
import type { Invocation, RegisterCommand } from '../context.ts'
import { age, bytesText } from '../output.ts'
import { readPassphrase } from '../passphrase.ts'
import { backUpStopped } from './backup-stopped.ts'

interface SealOptions {
  passphraseFile?: string
  passphrase: boolean
}

/** The passphrase to seal with; undefined only where the user said so. @throws RookeryError `PASSPHRASE_MISSING` */
export async function passphraseFor(invocation: Invocation, options: SealOptions): Promise<string | undefined> {
  if (!options.passphrase) return undefined
  const given = await readPassphrase(invocation, { file: options.passphraseFile, use: 'new' })
  if (given !== undefined) return given
  throw new RookeryError('PASSPHRASE_MISSING', 'the file will hold private keys: it needs a passphrase', {
    kind: 'usage',
    field: '--passphrase-file',
    remedy: 'name a file that holds one with --passphrase-file, set ROOKERY_PASSPHRASE, call this on a terminal, or say --no-passphrase'
  })
}

export const registerBackup: RegisterCommand = (program, run) => {
  program
    .command('backup <file>')
    .description('write keys, settings and the store into one file, sealed with a passphrase; also while the node runs')
    .option('--passphrase-file <file>', 'read the passphrase from there (default: ROOKERY_PASSPHRASE, else it is asked for)')
    .option('--no-passphrase', 'leave the file open: whoever reads it has the keys')
    .addHelpText('after', '\nExample:\n  rookery backup ~/rookery.backup --passphrase-file ~/.rookery-passphrase')
    .action((file: string, options: SealOptions, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const passphrase = await passphraseFor(invocation, options)
        const target = resolve(file)
        const report = await backUpRunning(invocation, target, passphrase)
        out.result(report, () => {
          out.line(`${out.paint.green('written')}  ${report.file}: ${report.files} files, ${report.rows} rows, ${bytesText(report.bytes)}`)
          if (report.sealed === 'open') out.line(out.paint.yellow('it is not sealed: keep it where only you can read it'))
        })
      })
    )

  program
    .command('restore <file>')
    .description('make a new data directory from a backup')
    .option('--passphrase-file <file>', 'read the passphrase from there')
    .option('--any-size', 'also a file that unpacks to far more than it weighs: one of your own')
    .addHelpText(
      'after',
      `
What the node signs after that is numbered above what the network knows of it. Stop the former node for good first: two that run under one
identity contradict each other, and the network refuses them.

Example:
  rookery restore ~/rookery.backup --data ~/.rookery-restored`
    )
    .action((file: string, { passphraseFile, anySize }: { passphraseFile?: string; anySize?: boolean }, command) =>
      run(command, async (invocation) => {
        const { out, options, env, signal } = invocation
        const dataDir = dataDirOf(options.data, env)
        try {
          const restored = await restore(
            { dataDir, file: resolve(file), passphrase: () => readPassphrase(invocation, { file: passphraseFile, use: 'open' }) },
            { signal, onProgress: (text) => out.progress(text), size: anySize === true ? 'any' : 'bounded' }
          )
          const { header, ...counted } = restored
          out.result({ dataDir, ...counted, of: header.of, madeAtMs: header.madeAtMs, by: header.by }, () => {
            out.line(`${out.paint.green('restored')}  ${dataDir}: ${counted.files} files, ${counted.rows} rows`)
            out.line(`node      ${header.of}, as it was ${age(Date.now() - header.madeAtMs)} ago`)
            out.line('next      stop the former node for good, then rookery start')
          })
        } finally {
          out.done()
        }
      })
    )
}

/** By the node where one runs, else from the folder itself. */
async function backUpRunning(invocation: Invocation, file: string, passphrase: string | undefined) {
  try {
    return await invocation.call('backup', { file, ...(passphrase === undefined ? {} : { passphrase }) })
  } catch (error) {
    if (!(error instanceof RookeryError) || error.code !== 'NODE_NOT_RUNNING') throw error
    return await backUpStopped(invocation, file, passphrase)
  }
}
