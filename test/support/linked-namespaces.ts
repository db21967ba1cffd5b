import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)
const ip = async (...words: string[]) => void (await run('ip', words, { timeout: 10_000 }))

/** One end of a cable: a network namespace with nothing but loopback and this. */
export interface LinkEnd {
  readonly namespace: string
  readonly device: string
  readonly address: string
}

/** Two network namespaces of this machine with a cable between them, as two machines of one link have. */
export interface LinkedNamespaces {
  readonly ends: readonly [LinkEnd, LinkEnd]
  macOf(end: LinkEnd): Promise<string>
  /** Another device takes the place of the one at this end; the other end resolves its address anew. */
  replaceDevice(end: LinkEnd, mac: string): Promise<void>
  remove(): Promise<void>
}

/** @returns why not, where this system or this user cannot make them */
export async function linkNamespaces(): Promise<LinkedNamespaces | { refused: string }> {
  const name = `rookery${process.pid}`
  const ends = [0, 1].map((i) => ({
    namespace: `${name}-${i}`,
    device: `rk${process.pid}-${i}`.slice(0, 15),
    address: `10.213.7.${i + 1}`
  }))
  const [a, b] = ends as [LinkEnd, LinkEnd]
  const remove = async () => {
    for (const { namespace } of ends) await ip('netns', 'del', namespace).catch(() => {})
  }
  try {
    for (const { namespace } of ends) await ip('netns', 'add', namespace)
    await ip('link', 'add', a.device, 'netns', a.namespace, 'type', 'veth', 'peer', 'name', b.device, 'netns', b.namespace)
    for (const { namespace, device, address } of ends) {
      const within = (...words: string[]) => ip('-n', namespace, ...words)
      await within('address', 'add', `${address}/24`, 'dev', device)
      await within('link', 'set', 'lo', 'up')
      await within('link', 'set', device, 'up')
      await within('route', 'add', '224.0.0.0/4', 'dev', device)
    }
  } catch (error) {
    await remove()
    return { refused: error instanceof Error ? error.message.trim() : String(error) }
  }
  const other = (end: LinkEnd) => (end === a ? b : a)
  return {
    ends: [a, b],
    async macOf({ namespace, device }) {
      const { stdout } = await run('ip', ['-n', namespace, 'link', 'show', 'dev', device])
      return /link\/ether ([0-9a-f:]{17})/.exec(stdout)?.[1] ?? ''
    },
    async replaceDevice(end, mac) {
      await ip('-n', end.namespace, 'link', 'set', 'dev', end.device, 'address', mac)
      const { namespace, device } = other(end)
      await ip('-n', namespace, 'neigh', 'flush', 'dev', device)
    },
    remove
  }
}
