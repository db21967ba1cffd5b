import { RookeryError } from '../src/errors.ts'
import type { ByteStream, ConnectionInfo } from '../src/net/byte-stream.ts'
import type { Host } from '../src/net/host.ts'

/** A host with some of its methods replaced. */
const changedHost = (host: Host, change: Partial<Host>): Host => changed(host, change)

/** The same thing with some members replaced; the others see the thing itself as `this`. */
function changed<T extends object>(thing: T, change: Partial<T>): T {
  return new Proxy(thing, {
    get(target, name) {
      const value: unknown = name in change ? change[name as keyof T] : Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    }
  })
}

/** Every inbound stream says that it came on a connection of its own, so that no limit a connection ends it. */
export function withoutConnectionLimits(host: Host): Host {
  let streams = 0
  return changedHost(host, {
    handle: (protocol, handler, options) =>
      host.handle(
        protocol,
        (stream) => handler(onConnection(stream, { ...stream.connection, id: `${stream.connection.id}/${streams++}` })),
        options
      )
  })
}

function onConnection(stream: ByteStream, connection: ConnectionInfo): ByteStream {
  return changed(stream, { connection })
}

/** A host whose network can be taken away and given back. */
export function cuttableHost(host: Host): { host: Host; cut(): void; mend(): void } {
  const connections = new Map<string, ConnectionInfo>()
  let isCut = false
  const seen = (stream: ByteStream) => {
    connections.set(stream.connection.id, stream.connection)
    return stream
  }
  return {
    host: changedHost(host, {
      async openStream(target, protocol, options) {
        if (isCut) throw new RookeryError('DIAL_FAILED', 'the network is cut', { kind: 'unavailable' })
        return seen(await host.openStream(target, protocol, options))
      },
      handle: (protocol, handler, options) =>
        host.handle(
          protocol,
          async (stream) => {
            if (isCut) stream.connection.abort(new Error('the network is cut'))
            else await handler(seen(stream))
          },
          options
        )
    }),
    cut() {
      isCut = true
      for (const connection of connections.values()) connection.abort(new Error('the network is cut'))
      connections.clear()
    },
    mend() {
      isCut = false
    }
  }
}
