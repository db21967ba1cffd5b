import type { ComponentLogger, Logger as Libp2pLogger } from '@libp2p/interface'
import type { Logger } from '../platform/logger.ts'

/** libp2p's formatters: those of printf, and %e error, %p peer id, %a multiaddr, %b bytes, %c CID, %k key. */
const LIBP2P_FORMATS = /%[sdioOjepabcktn]/g

/** libp2p's own lines: its errors are everyday network events to us and go to `debug`, everything below is dropped. */
export function libp2pLogger(logger: Logger): ComponentLogger {
  const forComponent = (component: string): Libp2pLogger => {
    const log = () => {}
    const error = (formatter: unknown, ...args: unknown[]) => {
      const rest = args.map(short)
      const text = String(formatter).replace(LIBP2P_FORMATS, (as) => (rest.length === 0 ? as : String(rest.shift())))
      logger.debug({ component }, [text, ...rest].join(' '))
    }
    return Object.assign(log, { error, trace: log, enabled: false, newScope: (name: string) => forComponent(`${component}:${name}`) })
  }
  return { forComponent }
}

function short(value: unknown): unknown {
  if (value instanceof Error) return value.message
  return value instanceof Uint8Array ? `${value.length} bytes` : value
}
