import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Below what Linux hands out by itself (32,768 … 60,999): a port that was free a moment ago, and that is to be listened on later and again after a
 * restart, is not given to a connection of another process meanwhile.
 */
const PORTS = { from: 18_000, to: 32_000 }
const TRIES_MAX = 50

/** A port of 127.0.0.1 on which nobody listens. */
export async function freePort(protocol: 'udp' | 'tcp'): Promise<number> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const port = randomInt(PORTS.from, PORTS.to)
    if (await isFree(protocol, port)) return port
  }
  throw new Error(`no free ${protocol} port among ${TRIES_MAX}`)
}

async function isFree(protocol: 'udp' | 'tcp', port: number): Promise<boolean> {
  const taker = protocol === 'udp' ? createSocket('udp4').bind(port, '127.0.0.1') : createServer().listen(port, '127.0.0.1')
  try {
    await once(taker, 'listening')
  } catch {
    return false
  }
  const closed = once(taker, 'close')
  taker.close()
  await closed
  return true
}
