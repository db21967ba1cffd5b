import { execFile, execFileSync } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A host of the lab: a network namespace with one device. */
export interface NatHost {
  readonly namespace: string
  readonly device: string
  readonly address: string
}

export interface NatLab {
  /** on the common network, dialled by everyone */
  readonly open: readonly NatHost[]
  /** each behind a router of its own that translates addresses and lets nobody in */
  readonly behind: readonly NatHost[]
  /** Another address in the same network takes the place of the host's, whose link may be down meanwhile. */
  readdress(host: NatHost, address: string, link?: 'up' | 'down'): Promise<void>
  setLink(host: NatHost, state: 'up' | 'down'): Promise<void>
  remove(): Promise<void>
}

/** `plain`: one outer port for an inner one, whomever it sends to, as most home routers; `symmetric`: another for each. */
export type NatKind = 'plain' | 'symmetric'

const COMMON = '10.77.0'
const BEHIND = '192.168'

/** Namespaces that a run left behind when it was killed are no longer anyone's. */
function leftBehind(): string[] {
  const list = execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' })
  return list.split('\n').flatMap((line) => {
    const [name = ''] = line.split(' ')
    const pid = /^rknat(\d+)-/.exec(name)?.[1]
    return pid === undefined || isAlive(Number(pid)) ? [] : [name]
  })
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/**
 * A network of network namespaces: hosts on one common segment, and hosts behind routers with iptables. Private addresses alone, and no way out.
 * @returns why not, where this system or this user cannot make them
 */
export async function natLab(openCount: number, routers: readonly NatKind[]): Promise<NatLab | { refused: string }> {
  const made: string[] = []
  const name = (of: string) => `rknat${process.pid}-${of}`
  const ip = async (...words: string[]) => void (await run('ip', words, { timeout: 20_000 }))
  const within = (namespace: string, ...words: string[]) => ip('netns', 'exec', namespace, ...words)
  const add = async (of: string) => {
    const namespace = name(of)
    await ip('netns', 'add', namespace)
    made.push(namespace)
    await ip('-n', namespace, 'link', 'set', 'lo', 'up')
    return namespace
  }
  const cable = async (a: { namespace: string; device: string }, b: { namespace: string; device: string }) => {
    await ip('link', 'add', a.device, 'netns', a.namespace, 'type', 'veth', 'peer', 'name', b.device, 'netns', b.namespace)
    for (const end of [a, b]) await ip('-n', end.namespace, 'link', 'set', end.device, 'up')
  }
  const setAddress = (host: NatHost, prefix = 24) =>
    ip('-n', host.namespace, 'address', 'add', `${host.address}/${prefix}`, 'dev', host.device)
  const remove = async () => {
    for (const namespace of made.splice(0)) await ip('netns', 'del', namespace).catch(() => {})
  }
  try {
    for (const old of leftBehind()) await ip('netns', 'del', old)
    const core = await add('core')
    await ip('-n', core, 'link', 'add', 'bridge', 'type', 'bridge')
    await ip('-n', core, 'link', 'set', 'bridge', 'up')
    const plug = async (namespace: string, device: string, port: string) => {
      await cable({ namespace, device }, { namespace: core, device: port })
      await ip('-n', core, 'link', 'set', port, 'master', 'bridge')
    }
    const open: NatHost[] = []
    for (let i = 0; i < openCount; i++) {
      const host = { namespace: await add(`open${i}`), device: 'eth', address: `${COMMON}.${11 + i}` }
      await plug(host.namespace, host.device, `open${i}`)
      await setAddress(host)
      open.push(host)
    }
    const behind: NatHost[] = []
    for (const [i, kind] of routers.entries()) {
      const router = await add(`router${i}`)
      const host = { namespace: await add(`behind${i}`), device: 'eth', address: `${BEHIND}.${81 + i}.2` }
      await plug(router, 'wan', `router${i}`)
      await setAddress({ namespace: router, device: 'wan', address: `${COMMON}.${101 + i}` })
      await cable({ namespace: router, device: 'lan' }, host)
      await setAddress({ namespace: router, device: 'lan', address: `${BEHIND}.${81 + i}.1` })
      await setAddress(host)
      await ip('-n', host.namespace, 'route', 'add', 'default', 'via', `${BEHIND}.${81 + i}.1`)
      await within(router, 'sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward')
      const ports = kind === 'symmetric' ? ['--random-fully'] : []
      await within(router, 'iptables', '-t', 'nat', '-A', 'POSTROUTING', '-o', 'wan', '-j', 'MASQUERADE', ...ports)
      await within(router, 'iptables', '-P', 'FORWARD', 'DROP')
      await within(router, 'iptables', '-A', 'FORWARD', '-i', 'lan', '-j', 'ACCEPT')
      await within(router, 'iptables', '-A', 'FORWARD', '-m', 'conntrack', '--ctstate', 'ESTABLISHED,RELATED', '-j', 'ACCEPT')
      behind.push(host)
    }
    const gatewayOf = ({ address }: NatHost) => address.replace(/\.\d+$/, '.1')
    return {
      open,
      behind,
      remove,
      async readdress(host, address, link = 'up') {
        await ip('-n', host.namespace, 'address', 'del', `${host.address}/24`, 'dev', host.device)
        await setAddress({ ...host, address })
        if (link === 'up') await ip('-n', host.namespace, 'route', 'replace', 'default', 'via', gatewayOf(host))
      },
      async setLink(host, state) {
        await ip('-n', host.namespace, 'link', 'set', host.device, state)
        if (state === 'up') await ip('-n', host.namespace, 'route', 'replace', 'default', 'via', gatewayOf(host))
      }
    }
  } catch (error) {
    await remove()
    return { refused: error instanceof Error ? error.message.trim() : String(error) }
  }
}
