import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import type { Clock } from '../platform/clock.ts'

/** Neighbours remembered; the one seen longest ago goes first. */
export const NEIGHBOURS_MAX = 1_024
/** A neighbour that the system no longer names is forgotten after this. */
export const NEIGHBOUR_AGE_MS = 10 * 60_000
const READ_MS_MAX = 2_000
const TABLE_BYTES_MAX = 1_048_576
const MAC = /^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$/

/** IP to MAC, as the system's table has it now. */
export type NeighbourRows = readonly { ip: string; mac: string }[]

export interface NeighbourChange {
  ip: string
  before: string
  now: string
}

/** What stands at an IP of the link. MACs are an alarm when they change; they prove nothing (G-45). */
export class Neighbours {
  readonly #clock: Clock
  readonly #rows = new Map<string, { mac: string; seenAtMs: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  macOf(ip: string): string | undefined {
    const row = this.#rows.get(ip)
    return row !== undefined && this.#clock.monotonicMs() - row.seenAtMs < NEIGHBOUR_AGE_MS ? row.mac : undefined
  }

  get size(): number {
    return this.#rows.size
  }

  /** Takes a reading of the system's table in. @returns addresses at which another MAC stands than before */
  update(rows: NeighbourRows): NeighbourChange[] {
    const nowMs = this.#clock.monotonicMs()
    for (const [ip, { seenAtMs }] of this.#rows) if (nowMs - seenAtMs >= NEIGHBOUR_AGE_MS) this.#rows.delete(ip)
    const changes: NeighbourChange[] = []
    for (const { ip, mac } of rows) {
      const before = this.#rows.get(ip)?.mac
      if (before !== undefined && before !== mac) changes.push({ ip, before, now: mac })
      this.#rows.delete(ip)
      this.#rows.set(ip, { mac, seenAtMs: nowMs })
      if (this.#rows.size > NEIGHBOURS_MAX) this.#rows.delete(this.#rows.keys().next().value as string)
    }
    return changes
  }
}

/** The lines of /proc/net/arp: complete entries only. */
export function parseProcArp(text: string): NeighbourRows {
  return text
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const [ip = '', , flags = '', mac = ''] = line.trim().split(/\s+/)
      return (Number(flags) & 2) !== 0 ? rowOf(ip, mac) : []
    })
}

/** The lines of `ip neigh show`: those with a link address that did not fail. */
export function parseIpNeigh(text: string): NeighbourRows {
  return text.split('\n').flatMap((line) => {
    const words = line.trim().split(/\s+/)
    const at = words.indexOf('lladdr')
    return at < 0 || words.includes('FAILED') ? [] : rowOf(words[0] ?? '', words[at + 1] ?? '')
  })
}

function rowOf(ip: string, given: string): { ip: string; mac: string }[] {
  const mac = given.toLowerCase()
  return isIP(ip) !== 0 && MAC.test(mac) && mac !== '00:00:00:00:00:00' ? [{ ip, mac }] : []
}

/** Reads the system's table where it has one that we can read: `ip neigh` (IPv4 and IPv6), else /proc/net/arp; else nothing. */
export async function readNeighbours(): Promise<NeighbourRows> {
  const neigh = await new Promise<string | undefined>((resolve) => {
    execFile('ip', ['neigh', 'show'], { timeout: READ_MS_MAX, maxBuffer: TABLE_BYTES_MAX }, (error, stdout) =>
      resolve(error === null ? stdout : undefined)
    )
  })
  if (neigh !== undefined) return parseIpNeigh(neigh)
  try {
    return parseProcArp(await readFile('/proc/net/arp', 'utf8'))
  } catch {
    return [] // a platform without such a table: no alarms there
  }
}
