import type { NetworkReport, NodeStatus } from '../../api/methods.ts'
import { dataDirOf, loadConfig } from '../../config/load.ts'
import { nodeCrypto } from '../../crypto/node-crypto.ts'
import { type Examined, examineLocally } from '../../doctor/examine.ts'
import { EXIT_CODES, RookeryError } from '../../errors.ts'
import { systemClock } from '../../platform/clock.ts'
import { systemRandom } from '../../platform/random.ts'
import { version } from '../../version.ts'
import type { Invocation, RegisterCommand } from '../context.ts'
import { counted, type Output } from '../output.ts'

const components = { clock: systemClock, crypto: nodeCrypto, random: systemRandom }

export const registerDoctor: RegisterCommand = (program, run) => {
  const doctor = program
    .command('doctor')
    .description('says what is wrong with this node and its machine and what to do about it; exits 4 if something is wrong now')
    .option('--fix', 'mend what can be mended without losing anything: rights of files, what a process that is gone left behind')
    .addHelpText(
      'after',
      `
Looks at keys, settings, rights of files, leftovers of dead processes, ports, clock, disk, store, bounds and bootstrap list, whether the node runs or not.
Keys, settings, tasks and mail are never changed or removed by --fix.

Example:
  rookery doctor --fix`
    )
    .action(({ fix }: { fix?: true }, command) =>
      run(command, async (invocation) => {
        const { out, options, env } = invocation
        const dataDir = dataDirOf(options.data, env)
        const load = () => loadConfig({ dataDir: options.data, configFile: options.config, env })
        const running = await statusOf(invocation)
        const software = `rookery ${version}`
        const examined = await examineLocally(components, { dataDir, load, running, software }, fix === true ? 'fix' : 'look')
        out.result({ dataDir, ...examined }, () => printLocal(out, dataDir, examined))
        const left = examined.findings.some(({ severity, fixed }) => severity === 'problem' && !fixed)
        return left ? EXIT_CODES.unavailable : EXIT_CODES.ok
      })
    )
  doctor
    .command('network')
    .description(
      'why this node finds or is found by nobody: peers, addresses, UDP, clock, NAT, registrars; exits 4 if something is wrong now'
    )
    .addHelpText('after', '\nExample:\n  rookery doctor network\n  rookery doctor network --json')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const report = await invocation.call('doctor.network', {})
        invocation.out.result(report, () => print(invocation.out, report))
        return report.findings.some(({ severity }) => severity === 'problem') ? EXIT_CODES.unavailable : EXIT_CODES.ok
      })
    )
}

/** What the node says of itself; undefined where none runs, or none that could be asked. */
async function statusOf(invocation: Invocation): Promise<Pick<NodeStatus, 'drainHeld' | 'boundsNear'> | undefined> {
  try {
    return await invocation.call('status', {}, { progress: 'quiet' })
  } catch (error) {
    if (error instanceof RookeryError && error.code === 'NODE_NOT_RUNNING') return undefined
    throw error
  }
}

function printLocal(out: Output, dataDir: string, { findings, running }: Examined): void {
  for (const { code, severity, title, evidence, remedy, fix, fixed } of findings) {
    const word = fixed ? out.paint.green('fixed') : severity === 'problem' ? out.paint.red(severity) : out.paint.yellow(severity)
    out.line(`${word}  ${out.paint.bold(title)}  (${code})`)
    for (const line of evidence) out.line(`    seen: ${line}`)
    if (fixed) out.line(`    done: ${fix ?? ''}`)
    else out.line(`    do:   ${remedy}`)
    if (!fixed && fix !== undefined) out.line(`    or:   rookery doctor --fix  (${fix})`)
    out.line('')
  }
  const what = `${dataDir}, ${running ? 'whose node runs' : 'whose node does not run'}`
  if (findings.length === 0) out.line(`${out.paint.green('well')}  nothing is wrong with ${what}`)
  else out.line(`${counted(findings.length, 'finding')} about ${what}`)
  if (running) out.line('rookery doctor network looks at its peers')
}

function print(out: Output, { findings, facts }: NetworkReport): void {
  for (const { code, severity, title, evidence, remedy } of findings) {
    const word = severity === 'problem' ? out.paint.red(severity) : out.paint.yellow(severity)
    out.line(`${word}  ${out.paint.bold(title)}  (${code})`)
    for (const line of evidence) out.line(`    seen: ${line}`)
    out.line(`    do:   ${remedy}`)
    out.line('')
  }
  const seen = `${counted(facts.peers, 'peer')}, ${facts.routingTableSize} in the routing table, DHT ${facts.dhtMode}, network ${facts.scope}`
  if (findings.length === 0) out.line(`${out.paint.green('well')}  nothing is wrong as far as this node can see: ${seen}`)
  else out.line(`${counted(findings.length, 'finding')}; ${seen}`)
}
