import { AGREEMENT, agreementAt } from '../../sim/validate.ts'
import { refused, scriptOptions } from '../support/script-options.ts'

const USAGE = `npm run sim:validate -- [--nodes N,N,…] [--seeds N,N,…]

Do the model and the real nodes agree? Ends with 1 where they part by more than ${AGREEMENT * 100} %.

  --nodes  how many nodes, one comparison each; default 100,300,500
  --seeds  one comparison each; default 1
`
const { values } = scriptOptions(USAGE, { nodes: { type: 'string', default: '100,300,500' }, seeds: { type: 'string', default: '1' } })
const say = (line: string) => process.stdout.write(`${line}\n`)
function numbers(name: 'nodes' | 'seeds'): number[] {
  const all = values[name].split(',').map(Number)
  if (all.every((one) => Number.isInteger(one) && one >= 1)) return all
  return refused(`--${name} is whole numbers from 1 on with commas between, not "${values[name]}"`, USAGE)
}

let isApart = false
for (const nodes of numbers('nodes')) {
  for (const seed of numbers('seeds')) {
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
