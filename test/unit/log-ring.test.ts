import { describe, expect, it } from 'vitest'
import { bothSinks, LOG_CHARS_MAX, LOG_FIELDS_CHARS_MAX, LOG_LINES_MAX, LogRing } from '../../src/platform/log-ring.ts'
import { createLogger } from '../../src/platform/pino-logger.ts'

describe('the ring of recent log lines', () => {
  it('holds what the logger wrote, with level, component, message and fields', () => {
    const ring = new LogRing()
    const logger = createLogger({ level: 'info', sink: ring }).child('a2a')
    logger.info({ agent: 'bob' }, 'a task came')
    logger.debug({}, 'not written, so not held')
    expect(ring.after(0, 10)).toMatchObject({
      records: [{ seq: 1, level: 'info', component: 'a2a', message: 'a task came', fields: '{"agent":"bob"}' }],
      missed: 0
    })
    expect(ring.newest).toBe(1)
  })

  it('holds no secret: neither a field that the logger replaces, nor a credential in a text', () => {
    const ring = new LogRing()
    const logger = createLogger({ level: 'debug', sink: ring })
    const grant = `rkg_0123456789abcdef_${'A'.repeat(43)}`
    logger.warn({ token: 'tok-1', request: { authorization: 'Bearer tok-2', seed: 'tok-3' } }, 'odd')
    logger.warn({ err: new Error(`refused: Authorization: Bearer ${grant}`) }, `with Bearer abcdefgh-secret and ${grant}`)
    const text = JSON.stringify(ring.after(0, 10))
    for (const secret of ['tok-1', 'tok-2', 'tok-3', 'abcdefgh-secret', 'A'.repeat(43)]) expect(text).not.toContain(secret)
    expect(text).toContain('[redacted]')
  })

  it('[OD-30] is bounded by lines and by characters, and says how many it no longer has', () => {
    const ring = new LogRing()
    const line = (msg: string) => ring.write(`${JSON.stringify({ level: 'info', time: 1, msg })}\n`)
    for (let i = 1; i <= LOG_LINES_MAX + 10; i++) line(`line ${i}`)
    const all = ring.after(0, 10_000)
    expect(all.records).toHaveLength(LOG_LINES_MAX)
    expect(all.missed).toBe(10)
    expect(all.records[0]?.message).toBe('line 11')
    expect(ring.after(LOG_LINES_MAX + 8, 100).records.map(({ message }) => message)).toEqual([
      `line ${LOG_LINES_MAX + 9}`,
      `line ${LOG_LINES_MAX + 10}`
    ])
    for (let i = 0; i < LOG_LINES_MAX; i++)
      ring.write(`${JSON.stringify({ level: 'info', time: 1, msg: 'x'.repeat(5_000), more: 'y'.repeat(9_000) })}\n`)
    const { records } = ring.after(0, 10_000)
    expect(records.length).toBeLessThan(LOG_LINES_MAX / 4)
    expect(records.reduce((sum, one) => sum + one.message.length + one.fields.length, 0)).toBeLessThanOrEqual(LOG_CHARS_MAX)
    expect(records.at(-1)?.fields.length).toBe(LOG_FIELDS_CHARS_MAX)
  })

  it('passes over what is no line of the logger, and gives both sinks every line', () => {
    const ring = new LogRing()
    const written: string[] = []
    const sink = bothSinks({ write: (line) => void written.push(line) }, ring)
    for (const line of ['not json\n', '[]\n', '{"level":"loud"}\n', '{"level":"error","msg":"yes"}\n']) sink.write(line)
    expect(written).toHaveLength(4)
    expect(ring.after(0, 10).records.map(({ message }) => message)).toEqual(['yes'])
  })

  it('tells listeners until they leave', () => {
    const ring = new LogRing()
    let told = 0
    const off = ring.onLine(() => told++)
    ring.write('{"level":"info","msg":"one"}')
    off()
    ring.write('{"level":"info","msg":"two"}')
    expect(told).toBe(1)
  })
})
