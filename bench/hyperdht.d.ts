/** The part of hyperdht that the benchmarks use; the package brings no types. */
declare module 'hyperdht' {
  import type { Duplex } from 'node:stream'

  interface Address {
    host: string
    port: number
  }
  interface KeyPair {
    publicKey: Buffer
    secretKey: Buffer
  }
  interface Server {
    listen(keyPair: KeyPair): Promise<void>
  }
  export default class DHT {
    constructor(options: { bootstrap: Address[]; host?: string })
    static keyPair(): KeyPair
    createServer(onConnection: (socket: Duplex) => void): Server
    connect(publicKey: Uint8Array): Duplex & { opened: Promise<boolean> }
    destroy(): Promise<void>
  }
}

declare module 'hyperdht/testnet.js' {
  import type DHT from 'hyperdht'

  export default function createTestnet(
    size: number,
    options?: { host?: string }
  ): Promise<{ bootstrap: { host: string; port: number }[]; createNode(): DHT; destroy(): Promise<void> }>
}
