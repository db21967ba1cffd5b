import type { Server } from 'node:net'
import { type Clock, systemClock } from './clock.ts'
import type { Logger } from './logger.ts'

/** One line for so long, however many connections are refused. */
const SAID_MS = 60_000

/**
 * A server that cannot take a connection, as without a file descriptor left, says so and goes on; unheard, Node would end the process. Call it once
 * the server listens.
 * @param what - such as `the A2A edge`
 */
export function sayAcceptErrors(server: Server, what: string, logger: Logger, clock: Clock = systemClock): void {
  let saidMs: number | undefined
  server.on('error', (error: NodeJS.ErrnoException) => {
    const nowMs = clock.monotonicMs()
    if (saidMs !== undefined && nowMs - saidMs < SAID_MS) return
    saidMs = nowMs
    const remedy = error.code === 'EMFILE' || error.code === 'ENFILE' ? { remedy: 'raise the limit of open files (ulimit -n)' } : {}
    logger.warn({ code: error.code ?? error.message, ...remedy }, `${what} cannot take connections; it goes on by itself`)
  })
}
