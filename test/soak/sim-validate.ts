/**
 * `npm run sim:validate`: do the model and the real nodes agree at 100, 300 and 500 nodes (or at those of NODES=…, with the seeds of SEEDS=…, by default 1)?
 * Exits 1 where they part by more than 10 %.
 */
import { AGREEMENT, agreementAt } from '../../sim/validate.ts'

const say = (line: string) => process.stdout.write(`${line}\n`)
function numbers(name: string, usual: string): number[] {
  const text = process.env[name] ?? usual
  const all = text.split(',').map(Number)
  if (all.every((one) => Number.isInteger(one) && one >= 1)) return all
  process.stderr.write(`${name} is whole numbers from 1 with commas between, as ${usual}, not "${text}"\n`)
  process.exit(2)
}

let isApart = false
for (const nodes of numbers('NODES', '100,300,500')) {
  for (const seed of numbers('SEEDS', '1')) {
    let phase = ''
    const { hops, success, failures, apart, cost } = await agreementAt(nodes, {
      seed,
      onProgress({ engine, phase: now, done, total }) {
        if (now !== phase) say(`  ${nodes} nodes, seed ${seed}, ${engine}: ${now} (${total})`)
        else if (total >= 100 && done > 0 && done % 100 === 0) say(`  ${done} of ${total}`)
        phase = now
      }
    })
    for (const failure of failures) say(`  ${failure}`)
    const percent = (value: number) => `${(value * 100).toFixed(1)} %`
    isApart ||= apart > AGREEMENT
    say(
      `${nodes} nodes, seed ${seed}: hops ${hops.real.toFixed(2)} real, ${hops.model.toFixed(2)} model; success ${percent(success.real)} and ${percent(success.model)}; apart by ${percent(apart)}; real: ${(cost.cpuMs / 1_000).toFixed(0)} s of processor, ${(cost.wallMs / 1_000).toFixed(0)} s, ${Math.round(cost.rssBytesMax / 2 ** 20)} MiB, ${(cost.simulatedMs / 1_000).toFixed(1)} s simulated`
    )
  }
}
process.exit(isApart ? 1 : 0)
