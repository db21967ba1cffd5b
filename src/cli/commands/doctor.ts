import type { NetworkReport } from '../../api/methods.ts'
import { EXIT_CODES } from '../../errors.ts'
import type { RegisterCommand } from '../context.ts'
import { counted, type Output } from '../output.ts'

export const registerDoctor: RegisterCommand = (program, run) => {
  const doctor = program.command('doctor').description('says what is wrong and what to do about it')
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
