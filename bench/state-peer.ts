/** The other end of the state benchmarks, as a process of its own: answers every `ping` it sees by a `pong` of the same value, until its parent goes. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStore } from '../src/store/open-store.ts'
import { memoryStore, newAgent, ours, shipped } from './endpoints.ts'
import { type StateEnd, sessionEnd, YJS, yjsEnd } from './state-ends.ts'

function answer(end: StateEnd): void {
  end.onChange((key, value) => {
    if (key === 'ping') end.set('pong', value)
  })
}

const dir = mkdtempSync(join(tmpdir(), 'rookery-bench-state-'))
const agent = newAgent()
const inMemory = await ours([agent], { store: memoryStore() })
const onDisk = await ours([agent], { store: await openStore(dir, { software: 'bench' }) })
for (const { sessions } of [inMemory, onDisk]) sessions.onSession((session) => answer(sessionEnd(session)))
const raw = await shipped()
await raw.handle(YJS, (stream) => answer(yjsEnd(stream)))
const addressOf = ({ host }: typeof inMemory) => ({ peer: host.peer, addrs: host.addresses() })
process.send?.({ did: agent.did, inMemory: addressOf(inMemory), onDisk: addressOf(onDisk), raw: raw.getMultiaddrs().map(String) })
process.on('disconnect', () => {
  rmSync(dir, { recursive: true, force: true })
  process.exit(0)
})
