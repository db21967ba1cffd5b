import { format } from 'node:util'
import type { ComponentLogger, Logger as Libp2pLogger } from '@libp2p/interface'
import type { Logger } from '../platform/logger.ts'

/** libp2p's formatters that `util.format` reads otherwise: %e error, %p peer id, %a multiaddr, %b bytes, %c CID, %k key. */
const LIBP2P_FORMATS = /%[epabcktn]/g

/** libp2p's own lines: its errors are everyday network events to us and go to `debug`, everything below is dropped. */
export function libp2pLogger(logger: Logger): ComponentLogger {
  const forComponent = (component: string): Libp2pLogger => {
    const log = () => {}
    const error = (formatter: unknown, ...args: unknown[]) => {
      const text = typeof formatter === 'string' ? formatter.replace(LIBP2P_FORMATS, '%s') : String(formatter)
      logger.debug({ component }, format(text, ...args.map(short)))
    }
    return Object.assign(log, { error, trace: log, enabled: false, newScope: (name: string) => forComponent(`${component}:${name}`) })
  }
  return { forComponent }
}

function short(value: unknown): unknown {
  if (value instanceof Error) return value.message
  return value instanceof Uint8Array ? `${value.length} bytes` : value
}
