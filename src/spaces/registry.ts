import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { rememberingSignatures } from '../crypto/remembered-signatures.ts'
import type { Host } from '../net/host.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { Store } from '../store/store.ts'
import type { WorkSolver } from '../work/work-solver.ts'
import { HandOver, type HandOverInit } from './hand-over.ts'
import { RegistrarBook } from './registrar-book.ts'
import { createRegistryClient, type RegistryClient, type RegistryClientInit } from './registry-client.ts'
import { serveRegistry } from './registry-service.ts'
import { openRegistryStore, type RegistryStore, type RegistryStoreInit } from './registry-store.ts'

export interface RegistryStats {
  /** sets, entries and bytes that this node keeps for others and itself */
  keys: number
  entries: number
  bytes: number
  /** entries taken over from neighbours */
  takenOver: number
  /** exchanges served, and streams that ended without an answer */
  served: number
  failed: number
  /** PUTs by refusing status */
  refused: Record<string, number>
}

/** The registry as the rest of the node uses it: the sets kept here, their service, and the client (protocol/README.md §4). */
export interface Registry extends RegistryClient {
  stats(): RegistryStats
  /** What this node keeps as a registrar itself. */
  held: RegistryStore['list']
  /** Takes over from neighbours what this node has become a registrar of; runs by itself when peers arrive and every ten minutes. */
  takeOver(): Promise<void>
}

/** Opens the sets, serves them over `host`, and gives the client. */
export async function createRegistry(
  components: {
    host: Host
    store: Store
    clock: Clock
    random: Random
    crypto: CryptoProvider
    logger: Logger
    solver: Pick<WorkSolver, 'solve'>
  },
  init: RegistryStoreInit & RegistryClientInit & HandOverInit = {}
): Promise<Registry> {
  const { dht } = components.host
  const local = await openRegistryStore(components, { closerKnown: (key, max) => dht.closerKnown(key, max), ...init })
  const service = await serveRegistry({ host: components.host, clock: components.clock, registry: local })
  const book = await RegistrarBook.open({ ...components, logger: components.logger.child('registry') })
  const client = createRegistryClient({ ...components, book, crypto: rememberingSignatures(components.crypto), local }, init)
  const handOver = new HandOver({ ...components, client, local, logger: components.logger.child('registry') }, init)
  return {
    ...client,
    held: (request, options) => local.list(request, options),
    takeOver: () => handOver.round(),
    stats: () => ({ ...local.stats(), takenOver: handOver.taken, served: service.served(), failed: service.failed() }),
    async idle() {
      await handOver.idle()
      await client.idle()
    },
    async stop() {
      await handOver.stop()
      await service.stop()
      await client.stop()
      await local.stop()
    }
  }
}
