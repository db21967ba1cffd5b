import type { Transport } from '@libp2p/interface'
import { RookeryError } from '../errors.ts'
import type { Logger } from '../platform/logger.ts'

/** Remembers how every attempt to listen ended, because libp2p folds all of them into one text. */
export class ListenLog {
  readonly #ended = new Map<string, unknown>()

  watch(transport: Transport): Transport {
    const createListener = transport.createListener.bind(transport)
    transport.createListener = (options) => {
      const listener = createListener(options)
      const listen = listener.listen.bind(listener)
      listener.listen = async (addr) => {
        try {
          await listen(addr)
          this.#ended.set(addr.toString(), undefined)
        } catch (error) {
          this.#ended.set(addr.toString(), error)
          throw error
        }
      }
      return listener
    }
    return transport
  }

  /**
   * Judges the attempts: a host without IPv6 gets one warning, anything else that failed ends the start.
   * @throws RookeryError `PORT_IN_USE`, `LISTEN_FAILED`
   */
  check(addrs: readonly string[], log: Logger): void {
    const lost: string[] = []
    addrs.forEach((addr, i) => {
      const field = `listen[${i}]`
      if (!this.#ended.has(addr)) {
        throw new RookeryError('LISTEN_FAILED', `no transport listens on ${addr}`, {
          kind: 'config',
          field,
          value: addr,
          remedy: 'use /udp/<port>/quic-v1 or /tcp/<port>'
        })
      }
      const error = this.#ended.get(addr)
      if (error === undefined) return
      const text = error instanceof Error ? error.message : String(error)
      if (/EADDRINUSE|in use|os error (98|48|10048)\b/i.test(text)) {
        throw new RookeryError('PORT_IN_USE', `another program listens on ${addr}`, {
          kind: 'conflict',
          field,
          value: addr,
          remedy: 'choose another port, or 0 for any free one',
          cause: error
        })
      }
      if (addr.startsWith('/ip6/') && this.#someListen()) lost.push(addr)
      else
        throw new RookeryError('LISTEN_FAILED', `cannot listen on ${addr}: ${text}`, { kind: 'config', field, value: addr, cause: error })
    })
    if (lost.length > 0) log.warn({ addrs: lost }, 'IPv6 is not available here; the node goes on with IPv4')
  }

  #someListen(): boolean {
    return [...this.#ended.values()].some((error) => error === undefined)
  }
}
