import { Writable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Output } from '../../src/cli/output.ts'
import { RookeryError } from '../../src/errors.ts'
import { createLogger } from '../../src/platform/pino-logger.ts'

/** What JSON leaves as it is, and terminals act on: the 8-bit form of ESC [ and ESC ], DEL, and what turns writing around. */
const HOSTILE = `a\u009b2J\u009d0;title\u009cb\u007f\u0085\u202ec\u2066d\u001b[31me`
const STEERING = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/u

class Capture extends Writable {
  text = ''
  readonly isTTY: boolean
  readonly columns = 80
  readonly rows = 24

  constructor(isTTY: boolean) {
    super()
    this.isTTY = isTTY
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString()
    done()
  }
}

const opened = (options: { json: boolean; isTTY?: boolean }) => {
  const [stdout, stderr] = [new Capture(options.isTTY === true), new Capture(false)]
  return { stdout, stderr, out: new Output({ stdout, stderr }, { json: options.json, color: 'never' }) }
}

describe('text of others, printed as JSON', () => {
  it('steers no terminal and means the same: results, lines and failures', () => {
    const { stdout, stderr, out } = opened({ json: true })
    out.result({ name: HOSTILE, [HOSTILE]: 1 }, () => {})
    out.jsonLine({ name: HOSTILE })
    out.failure(new RookeryError('X', HOSTILE, { kind: 'refused', value: HOSTILE }))
    const lines = [...stdout.text.split('\n'), ...stderr.text.split('\n')].filter((line) => line !== '')
    expect(lines).toHaveLength(3)
    for (const line of lines) expect(line).not.toMatch(STEERING)
    expect(JSON.parse(lines[0] as string)).toEqual({ name: HOSTILE, [HOSTILE]: 1 })
    expect(JSON.parse(lines[1] as string)).toEqual({ name: HOSTILE })
    expect(JSON.parse(lines[2] as string).error).toMatchObject({ message: HOSTILE, value: HOSTILE })
  })

  it('into the log is one line a call, without a character that steers a terminal, and means the same', () => {
    const written: string[] = []
    const logger = createLogger({ level: 'debug', sink: { write: (line) => void written.push(line) } })
    logger.warn({ peer: HOSTILE, [HOSTILE]: HOSTILE, err: new Error(HOSTILE) }, HOSTILE)
    logger.child(HOSTILE).info({}, 'said')
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => logger.info({ text }, text) as unknown as undefined))
    for (const line of written) expect(line.slice(0, -1)).not.toMatch(STEERING)
    for (const line of written) expect(line.endsWith('\n')).toBe(true)
    expect(JSON.parse(written[0] as string)).toMatchObject({ peer: HOSTILE, [HOSTILE]: HOSTILE, msg: HOSTILE })
  })
})

describe('text of others in a view that is drawn', () => {
  it.each([true, false])('brings none of its characters that steer, on a terminal: %s', (isTTY) => {
    const { stdout, out } = opened({ json: false, isTTY })
    out.draw([`name ${HOSTILE}`, 'second'])
    const own = stdout.text.replaceAll('\u001b[?25l', '').replaceAll('\u001b[0J', '')
    expect(own).toContain('second')
    expect(own.replaceAll('\n', '')).not.toMatch(STEERING)
  })
})
