import type { StandingView } from '../../evidence/evidence.ts'
import type { RegisterCommand } from '../context.ts'
import { age } from '../output.ts'
import { integer } from '../values.ts'

export const registerStanding: RegisterCommand = (program, run) => {
  program
    .command('standing')
    .argument('[did]', 'did:key of an agent, or the name of one of this node; its registrars are asked')
    .description('who is proven to contradict itself, who is refused, and why')
    .option('--limit <count>', 'at most this many', integer(1, 1_000))
    .addHelpText('after', '\nExample:\n  rookery standing did:key:z6Mk…\n  rookery standing --json')
    .action((did: string | undefined, options: { limit?: number }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const standings = await invocation.call('standing', { ...(did === undefined ? {} : { did }), ...options })
        out.result(standings, () => {
          if (standings.length === 0) out.line('nobody is refused')
          else {
            out.table(
              ['AGENT', 'STANDING', 'EVIDENCE', 'SINCE', 'ESCROW ENDS IN', 'LEDGER', 'OUR TICKET'],
              standings.map((one) => row(one, Date.now()))
            )
          }
        })
      })
    )
}

function row(one: StandingView, nowMs: number): string[] {
  const { evidence, distrusted, retired } = one
  const why = evidence?.kind ?? (distrusted === undefined ? retired && `retired by ${retired.by}` : distrusted.reason)
  const standing = one.standing === 'nominal' && one.refused ? 'distrusted' : one.standing
  return [
    one.did,
    standing,
    why ?? '-',
    evidence === undefined ? '-' : age(nowMs - evidence.challengedAtMs),
    one.standing === 'challenged' && evidence !== undefined ? age(Math.max(0, evidence.deadlineMs - nowMs)) : '-',
    one.ledger,
    one.ticket
  ]
}
