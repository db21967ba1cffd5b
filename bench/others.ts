/** The other side of hyperdht and iroh: servers that echo or count, one role a stream, told by its first message or byte. */
import type { Duplex } from 'node:stream'

export const ROLE = { echo: 1, sink: 2 }
/** iroh hands bytes over as arrays of numbers */
export const IROH_ALPN = [...Buffer.from('rookery/bench/1')]
export const ECHO_BYTES = 1_024
const IROH_READ_BYTES = 65_536

export interface OthersInfo {
  hyperdht?: { publicKey: string; bootstrap: { host: string; port: number }[] }
  iroh?: { id: string; addrs: string[] }
}

/** Starts what can be loaded here; what cannot is left out, and the benchmarks say so. */
export async function serveOthers(): Promise<OthersInfo> {
  const hyperdht = await serveHyperdht().catch(notHere('hyperdht'))
  const iroh = await serveIroh().catch(notHere('iroh'))
  return { ...(hyperdht === undefined ? {} : { hyperdht }), ...(iroh === undefined ? {} : { iroh }) }
}

function notHere(name: string): (error: Error) => undefined {
  return (error) => {
    console.error(`${name} cannot be started here and is left out: ${error.message.split('\n')[0]}`)
    return undefined
  }
}

async function serveHyperdht(): Promise<OthersInfo['hyperdht']> {
  const { default: DHT } = await import('hyperdht')
  const { default: createTestnet } = await import('hyperdht/testnet.js')
  const testnet = await createTestnet(3, { host: '127.0.0.1' })
  const node = new DHT({ bootstrap: testnet.bootstrap, host: '127.0.0.1' })
  const keyPair = DHT.keyPair()
  await node.createServer(serveMessages).listen(keyPair)
  return { publicKey: keyPair.publicKey.toString('hex'), bootstrap: testnet.bootstrap }
}

/** hyperdht keeps messages apart: the first names the role, a sink's next one says how many bytes come. */
function serveMessages(socket: Duplex): void {
  let role = 0
  let left = -1
  socket.on('error', () => {})
  socket.on('data', (message: Buffer) => {
    if (role === 0) role = message[0] ?? 0
    else if (role === ROLE.echo) socket.write(message)
    else if (left === -1) left = message.readUInt32BE(0)
    else {
      left -= message.length
      if (left > 0) return
      left = -1
      socket.write(Uint8Array.of(1))
    }
  })
}

async function serveIroh(): Promise<OthersInfo['iroh']> {
  const { Endpoint, presetMinimal, RelayMode } = await import('@number0/iroh')
  const builder = Endpoint.builder()
  presetMinimal(builder)
  builder.relayMode(RelayMode.disabled())
  builder.alpns([IROH_ALPN])
  builder.bindAddr('127.0.0.1:0')
  const endpoint = await builder.bind()
  const accept = async () => {
    for (;;) {
      const incoming = await endpoint.acceptNext()
      if (incoming === null) return
      const connection = await (await incoming.accept()).connect()
      for (let stream = await connection.acceptBi(); ; stream = await connection.acceptBi()) {
        void serveIrohStream(stream).catch(() => {})
      }
    }
  }
  void accept().catch(() => {})
  return { id: endpoint.id().toString(), addrs: endpoint.boundSockets() }
}

type IrohStream = Awaited<ReturnType<import('@number0/iroh').Connection['acceptBi']>>

async function serveIrohStream({ send, recv }: IrohStream): Promise<void> {
  const [role] = await recv.readExact(1)
  for (;;) {
    if (role === ROLE.echo) {
      await send.writeAll(await recv.readExact(ECHO_BYTES))
      continue
    }
    let left = Buffer.from(await recv.readExact(4)).readUInt32BE(0)
    while (left > 0) left -= (await recv.read(Math.min(left, IROH_READ_BYTES))).length
    await send.writeAll([1])
  }
}
