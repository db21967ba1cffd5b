import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { printable } from '../../src/cli/output.ts'
import { RookeryError } from '../../src/errors.ts'
import { createLogger } from '../../src/platform/pino-logger.ts'

function opened() {
  const written: string[] = []
  const logger = createLogger({ level: 'debug', sink: { write: (line) => void written.push(line) } })
  const lines = () => written.splice(0).map((line) => JSON.parse(line) as Record<string, unknown>)
  return { logger, written, lines }
}

describe('lines of the log', () => {
  it('are one a call, whatever a peer wrote into their fields: control characters are escaped, and nothing forges a line', () => {
    const { logger, written } = opened()
    const forged = 'name\n{"level":"error","msg":"all is lost"}\r\u001b[2J\u0000\u2028'
    logger.child('a2a').warn({ peer: forged, nested: { text: forged } }, forged)
    expect(written).toHaveLength(1)
    expect(written[0]?.split('\n')).toEqual([expect.any(String), ''])
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that none is there is the point
    expect(written[0]?.slice(0, -1)).not.toMatch(/[\u0000-\u001f]/)
    expect(JSON.parse(written[0] as string)).toMatchObject({ level: 'warn', component: 'a2a', peer: forged, msg: forged })
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        logger.info({ text }, text)
        expect(written.at(-1)?.indexOf('\n')).toBe((written.at(-1)?.length ?? 0) - 1)
      })
    )
  })

  it('shown to a person carry nothing that steers the terminal', () => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that none is there is the point
    expect(printable('a\u001b[2Jb\u0007\u202ec\rd')).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u202e]/)
  })

  it('hold no secret, at the top or one level down, by whatever name of ours it goes', () => {
    const { logger, written } = opened()
    const names = [
      'seed',
      'secret',
      'privateKey',
      'token',
      'cookie',
      'authorization',
      'payload',
      'plaintext',
      'mailboxSecret',
      'password',
      'passphrase',
      'credential',
      'credentials'
    ]
    for (const name of names) logger.error({ [name]: 'hunter2', below: { [name]: 'hunter2' } }, 'said')
    expect(written).toHaveLength(names.length)
    for (const [i, line] of written.entries()) {
      expect(line, names[i]).not.toContain('hunter2')
      expect(line).toContain('[redacted]')
    }
  })

  it('tell of an error its code, its words and where it came from, under either name', () => {
    const { logger, lines } = opened()
    const error = new RookeryError('STORE_FULL', 'no room', { kind: 'storage', cause: new Error('ENOSPC') })
    logger.error({ err: error }, 'first')
    logger.error({ error }, 'second')
    const [first, second] = lines()
    for (const told of [first?.err, second?.error]) {
      expect(told).toMatchObject({
        code: 'STORE_FULL',
        message: expect.stringContaining('no room'),
        stack: expect.stringContaining('ENOSPC')
      })
    }
  })

  it('are counted by level, those below the level not', () => {
    const { logger } = opened()
    logger.setLevels({ level: 'warn' })
    for (const level of ['debug', 'info', 'warn', 'warn', 'error'] as const) logger[level]({}, level)
    expect(logger.lines()).toEqual({ debug: 0, info: 0, warn: 2, error: 1 })
  })
})
