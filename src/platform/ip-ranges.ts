/** An IP address as bytes, 4 or 16; undefined for text that is none. */
export function ipBytes(text: string): Uint8Array | undefined {
  return text.includes(':') ? ip6Bytes(text) : ip4Bytes(text)
}

function ip4Bytes(text: string): Uint8Array | undefined {
  const parts = text.split('.')
  if (parts.length !== 4 || !parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255)) return undefined
  return Uint8Array.from(parts, Number)
}

function ip6Bytes(text: string): Uint8Array | undefined {
  const halves = text.split('::')
  if (halves.length > 2) return undefined
  const [head = '', tail] = halves
  const left = groupsOf(head, tail === undefined)
  const right = groupsOf(tail ?? '', true)
  if (left === undefined || right === undefined) return undefined
  const missing = 8 - left.length - right.length
  if (halves.length === 1 ? missing !== 0 : missing < 1) return undefined
  const bytes = new Uint8Array(16)
  const view = new DataView(bytes.buffer)
  for (const [i, group] of [...left, ...Array<number>(missing).fill(0), ...right].entries()) view.setUint16(2 * i, group)
  return bytes
}

/** The last two groups of an address may stand as an IPv4 address. */
function groupsOf(text: string, isEnd: boolean): number[] | undefined {
  if (text === '') return []
  const groups: number[] = []
  const parts = text.split(':')
  for (const [i, part] of parts.entries()) {
    const ip4 = isEnd && i === parts.length - 1 ? ip4Bytes(part) : undefined
    if (ip4 !== undefined) groups.push(((ip4[0] as number) << 8) | (ip4[1] as number), ((ip4[2] as number) << 8) | (ip4[3] as number))
    else if (/^[0-9a-f]{1,4}$/i.test(part)) groups.push(Number.parseInt(part, 16))
    else return undefined
  }
  return groups
}

/** Networks in CIDR notation, of one family. */
export class IpRanges {
  readonly #nets: readonly { bytes: Uint8Array; bits: number }[]

  /** @throws TypeError for a network that is none */
  constructor(nets: readonly string[]) {
    this.#nets = nets.map((net) => {
      const [ip = '', bits] = net.split('/')
      const bytes = ipBytes(ip)
      if (bytes === undefined || !(Number(bits) <= bytes.length * 8)) throw new TypeError(`"${net}" is no network`)
      return { bytes, bits: Number(bits) }
    })
  }

  has(ip: Uint8Array): boolean {
    return this.#nets.some(({ bytes, bits }) => bytes.length === ip.length && haveCommonPrefix(bytes, ip, bits))
  }
}

function haveCommonPrefix(a: Uint8Array, b: Uint8Array, bits: number): boolean {
  const whole = bits >> 3
  for (let i = 0; i < whole; i++) if (a[i] !== b[i]) return false
  const mask = 0xff00 >> (bits & 7)
  return (((a[whole] ?? 0) ^ (b[whole] ?? 0)) & mask & 0xff) === 0
}
