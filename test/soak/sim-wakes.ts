/** Draws docs/wake-storm.svg: a thousand modelled nodes, seven in ten asleep, with the protocol's jitter and without. */
import { writeFileSync } from 'node:fs'
import { loadScenario, runScenario } from '../../sim/index.ts'
import { wakePicture } from '../../sim/report/wake-picture.ts'

const run = async (name: string) => await runScenario({ ...loadScenario(name), load: [] }, { nodes: 1_000 })
const picture = wakePicture([
  { title: 'With jitter', report: await run('sleepers') },
  { title: 'Without', report: await run('sleepers-without-jitter') }
])
writeFileSync(new URL('../../docs/wake-storm.svg', import.meta.url), picture)
