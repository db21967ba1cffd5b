import { BlockList, isIP } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { IpRanges, ipBytes } from '../../src/platform/ip-ranges.ts'

const group = fc.oneof(
  fc.constantFrom('0', '::', ':', '1', 'ffff', '2001', 'db8', 'fe80', '10000', 'g', '', '127.0.0.1', '1.2.3.256', '01'),
  fc.integer({ min: 0, max: 0xffff }).map((n) => n.toString(16))
)
const address = fc.oneof(
  fc.ipV4(),
  fc.ipV6(),
  fc.array(group, { minLength: 1, maxLength: 9 }).map((groups) => groups.join(':')),
  fc
    .array(fc.constantFrom('0', '1', '10', '127', '255', '256', '00', '1a', ''), { minLength: 1, maxLength: 5 })
    .map((parts) => parts.join('.'))
)

describe('IP addresses without the platform', () => {
  it('reads as an address what Node reads as one, and nothing else', () => {
    fc.assert(
      fc.property(address, (text) => {
        expect(ipBytes(text)?.length).toBe({ 0: undefined, 4: 4, 6: 16 }[isIP(text)])
      }),
      { numRuns: 3_000 }
    )
  })

  it('finds in a network what Node finds in it', () => {
    const nets = ['10.0.0.0/8', '172.16.0.0/12', '192.0.2.0/24', '224.0.0.0/3', '100.64.0.0/10', '2000::/3', '2001:db8::/32', 'fe80::/10']
    for (const net of nets) {
      const [ip = '', bits] = net.split('/')
      const oracle = new BlockList()
      oracle.addSubnet(ip, Number(bits), ip.includes(':') ? 'ipv6' : 'ipv4')
      const ranges = new IpRanges([net])
      const near = fc.oneof(
        fc.ipV4(),
        fc.ipV6(),
        fc.constantFrom(
          '9.255.255.255',
          '10.0.0.0',
          '11.0.0.0',
          '172.32.0.0',
          '172.31.255.255',
          '223.255.255.255',
          '2001:db8::1',
          '2001:db9::',
          '3fff::',
          '4000::',
          'febf::1',
          'fec0::'
        )
      )
      fc.assert(
        fc.property(near, (text) => {
          const bytes = ipBytes(text)
          if (bytes === undefined || (text.includes(':') && text.includes('.'))) return // Node's list reads mapped addresses as IPv4
          if (/^(::|0*:0*:0*:0*:0*:ffff:)/i.test(text)) return
          expect(ranges.has(bytes)).toBe(oracle.check(text, bytes.length === 4 ? 'ipv4' : 'ipv6'))
        }),
        { numRuns: 500 }
      )
    }
  })

  it('refuses a network that is none', () => {
    for (const net of ['10.0.0.0/33', 'fe80::/129', '10.0.0/8', 'name/8', '10.0.0.0']) expect(() => new IpRanges([net])).toThrow(TypeError)
  })
})
