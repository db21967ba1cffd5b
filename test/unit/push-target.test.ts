import { describe, expect, it } from 'vitest'
import { addressScope } from '../../src/platform/address-scope.ts'
import { type PushTargets, type ResolvedAddress, readTarget, vetted } from '../../src/push/target.ts'

const rules = (targets: PushTargets = 'public', ports: readonly number[] = [443]) => ({ targets, ports })
const resolving =
  (...addresses: string[]) =>
  async (): Promise<ResolvedAddress[]> =>
    addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
const judge = async (url: string, targets: PushTargets, addresses: string[] = ['93.184.216.34'], ports: readonly number[] = [443]) => {
  try {
    const found = await vetted(readTarget(url, rules(targets, ports)), rules(targets, ports), resolving(...addresses))
    return found.map(({ address }) => address)
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe('where an address leads', () => {
  it('[F020] is told for every special range, and for IPv4 inside IPv6', () => {
    const loopback = ['127.0.0.1', '127.255.255.254', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1']
    const internal = [
      '0.0.0.0',
      '10.0.0.1',
      '100.64.0.1',
      '100.127.255.255',
      '169.254.169.254',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.1.1',
      '192.0.0.1',
      '192.0.2.1',
      '198.18.0.1',
      '198.51.100.7',
      '203.0.113.9',
      '224.0.0.1',
      '240.0.0.1',
      '255.255.255.255',
      '::',
      'fe80::1',
      'fe80::1%eth0',
      'fc00::1',
      'fd00::1',
      'ff02::1',
      '::ffff:10.0.0.1',
      '::ffff:a00:1',
      '64:ff9b::a00:1',
      '64:ff9b::7f00:1',
      '::127.0.0.1',
      '2001:db8::1',
      '2001::1',
      '2002:7f00:1::',
      '3fff::1',
      'no address',
      ''
    ]
    const open = ['93.184.216.34', '1.1.1.1', '172.32.0.1', '100.128.0.1', '2606:4700::1111', '2a00:1450:4001::200e', '::ffff:1.1.1.1']
    expect(loopback.map(addressScope)).toEqual(loopback.map(() => 'loopback'))
    expect(internal.map((one) => [one, addressScope(one)])).toEqual(internal.map((one) => [one, 'internal']))
    expect(open.map(addressScope)).toEqual(open.map(() => 'public'))
  })
})

describe('the URL of a webhook', () => {
  it('[F020] is refused unless it is https to a public host, however this machine or an internal host is spelled', async () => {
    const hosts = [
      '127.0.0.1',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '2130706433',
      '0x7f.1',
      '0177.0.0.1',
      '169.254.169.254',
      '10.0.0.1',
      '100.64.0.1',
      '[fd00::1]'
    ]
    for (const host of hosts) expect([host, await judge(`https://${host}/hook`, 'public')]).toEqual([host, 'PUSH_URL_REFUSED'])
    for (const url of [
      'file:///etc/passwd',
      'gopher://example.com/',
      'ftp://example.com/',
      'http://example.com/',
      'https://user:pw@example.com/',
      'example.com',
      '',
      'https://'
    ]) {
      expect([url, await judge(url, 'internal')]).toEqual([url, 'PUSH_URL_REFUSED'])
    }
    expect(await judge('https://example.com/hook', 'public')).toEqual(['93.184.216.34'])
    expect(await judge(`https://example.com/${'a'.repeat(2_048)}`, 'public')).toBe('PUSH_URL_REFUSED')
  })

  it('[F020] is refused when any address that its name resolves to leads inward, also with a dot at its end', async () => {
    expect(await judge('https://inner.example/', 'public', ['10.0.0.1'])).toBe('PUSH_URL_REFUSED')
    expect(await judge('https://mixed.example/', 'public', ['93.184.216.34', '::1'])).toBe('PUSH_URL_REFUSED')
    expect(await judge('https://localhost./', 'public', ['127.0.0.1'])).toBe('PUSH_URL_REFUSED')
    expect(await judge('https://nobody.example/', 'public', [])).toBe('PUSH_UNRESOLVED')
  })

  it('has a port that the operator allows', async () => {
    expect(await judge('https://example.com:8443/', 'public')).toBe('PUSH_URL_REFUSED')
    expect(await judge('https://example.com:8443/', 'public', undefined, [443, 8443])).toEqual(['93.184.216.34'])
  })

  it('may lead to this machine, and to internal networks, only where the operator said so', async () => {
    const table: [string, string[], PushTargets, unknown][] = [
      ['http://127.0.0.1:9000/', [], 'loopback', ['127.0.0.1']],
      ['http://localhost:9000/', ['127.0.0.1'], 'loopback', ['127.0.0.1']],
      ['http://10.0.0.1:9000/', [], 'loopback', 'PUSH_URL_REFUSED'],
      ['http://10.0.0.1:9000/', [], 'internal', ['10.0.0.1']],
      ['http://example.com/', ['93.184.216.34'], 'internal', 'PUSH_URL_REFUSED']
    ]
    for (const [url, addresses, targets, expected] of table)
      expect([url, targets, await judge(url, targets, addresses)]).toEqual([url, targets, expected])
  })
})
