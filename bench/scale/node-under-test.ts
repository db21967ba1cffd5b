import { join } from 'node:path'
import type { ConfigInput } from '../../src/config/schema.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'
import { initDataDir } from '../../src/identity/init.ts'
import { createNode } from '../../src/node.ts'
import { systemRandom } from '../../src/platform/random.ts'
import type { RookeryNode } from '../../src/rookery-node.ts'
import { Operator } from './operator.ts'

/** A data directory of its own with a node key; started as often as is wanted. */
export class NodeUnderTest {
  readonly dataDir: string
  #listen = '/ip4/127.0.0.1/udp/0/quic-v1'

  constructor(folder: string, name: string) {
    this.dataDir = join(folder, name)
    initDataDir(this.dataDir, { crypto: nodeCrypto, random: systemRandom })
  }

  /** On loopback, at the same port each time. */
  async start(config: ConfigInput = {}): Promise<{ node: RookeryNode; operator: Operator }> {
    const operator = new Operator()
    const settings: ConfigInput = {
      dataDir: this.dataDir,
      listen: [this.#listen],
      http: { port: 0 },
      grants: { peers: 'anyone' },
      ...config
    }
    const node = await createNode(settings, { logger: operator.logger })
    this.#listen = (node.host.addresses()[0] as string).replace(/\/p2p\/.*/, '')
    return { node, operator }
  }
}
