/** `npm run sim:validate`: do the model and the real nodes agree at 100, 300 and 500 nodes (or at those of NODES=…)? Exits 1 where they part by more than 10 %. */
import { AGREEMENT, agreementAt } from '../../sim/validate.ts'

const say = (line: string) => process.stdout.write(`${line}\n`)

const sizes = (process.env.NODES ?? '100,300,500').split(',').map(Number)
let isApart = false
for (const nodes of sizes) {
  const { hops, success, apart } = await agreementAt(nodes)
  const percent = (value: number) => `${(value * 100).toFixed(1)} %`
  isApart ||= apart > AGREEMENT
  say(
    `${nodes} nodes: hops ${hops.real.toFixed(2)} real, ${hops.model.toFixed(2)} model; success ${percent(success.real)} and ${percent(success.model)}; apart by ${percent(apart)}`
  )
}
process.exit(isApart ? 1 : 0)
