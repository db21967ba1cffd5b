import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { multiaddr } from '@multiformats/multiaddr'
import { eidFromDid } from '../protocol/identity/eid.ts'
import type { PeerAddress } from '../src/net/host.ts'
import { openStore } from '../src/store/open-store.ts'
import type { Store } from '../src/store/store.ts'
import { memoryStore, newAgent, ours, shipped } from './endpoints.ts'
import { pin } from './pair.ts'
import { type Plain, type StateEnd, sessionEnd, YJS, yjsEnd } from './state-ends.ts'

export const YJS_NAME = 'Yjs over a raw libp2p QUIC stream'

/** An end whose other end answers each ping by a pong of its value. */
export interface Pinger {
  name: string
  set(key: string, value: Plain): void
  /** sets `ping` and resolves when the pong of this value is there */
  ping(value: number): Promise<void>
}

/** All ends, each with its other end in one other process, pinned apart where that can be. */
export async function stateContenders(): Promise<{ all: Pinger[]; placement: string; stop(): Promise<void> }> {
  const file = fileURLToPath(new URL('./state-peer.ts', import.meta.url))
  const apart = pin()
  const [command, ...args] = apart ? ['taskset', '-c', '1', process.execPath, file] : [process.execPath, file]
  const child: ChildProcess = spawn(command as string, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const [info] = (await once(child, 'message')) as [{ did: string; inMemory: PeerAddress; onDisk: PeerAddress; raw: string[] }]
  const dir = mkdtempSync(join(tmpdir(), 'rookery-bench-state-'))
  const session = async (address: PeerAddress, store: Store) => {
    const agent = newAgent()
    const { sessions } = await ours([agent], { store })
    return sessionEnd(await sessions.open(agent, eidFromDid(info.did), address))
  }
  const raw = await shipped()
  const connection = await raw.dial(info.raw.map((addr) => multiaddr(addr)))
  const all = [
    pinger(YJS_NAME, yjsEnd(await connection.newStream(YJS))),
    pinger('rookery state, stores in memory', await session(info.inMemory, memoryStore())),
    pinger('rookery state, journals synced to disk', await session(info.onDisk, await openStore(dir, { software: 'bench' })))
  ]
  return {
    all,
    placement: apart ? 'two processes, pinned apart' : 'two processes, not pinned',
    async stop() {
      const gone = once(child, 'exit')
      child.disconnect()
      await gone
      rmSync(dir, { recursive: true, force: true })
    }
  }
}

function pinger(name: string, end: StateEnd): Pinger {
  let waiting: { value: number; resolve(): void } | undefined
  end.onChange((key, value) => {
    if (key === 'pong' && value === waiting?.value) waiting.resolve()
  })
  return {
    name,
    set: (key, value) => end.set(key, value),
    ping: (value) =>
      new Promise((resolve) => {
        waiting = { value, resolve }
        end.set('ping', value)
      })
  }
}
