import { Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { Output, printable } from '../../src/cli/output.ts'
import { RookeryError } from '../../src/errors.ts'

class Capture extends Writable {
  text = ''
  readonly isTTY: boolean

  constructor(isTTY: boolean) {
    super()
    this.isTTY = isTTY
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString()
    done()
  }
}

const ESC = '\u001b'
const HOSTILE = `a${ESC}[2J${ESC}]0;title\u0007b\u202ec\u009b31m\rd`

describe('what a command prints', () => {
  it('never lets text of others steer the terminal: no escape sequence, no carriage return, no turned direction', () => {
    const stdout = new Capture(false)
    const stderr = new Capture(false)
    const out = new Output({ stdout, stderr }, { json: false, color: 'auto' })
    out.line(HOSTILE)
    out.note(HOSTILE)
    out.progress(HOSTILE)
    out.table(['HEAD'], [[`${HOSTILE}\nsecond row?`]])
    out.failure(new RookeryError('X', HOSTILE, { kind: 'refused', value: HOSTILE }))
    out.failure(new Error(HOSTILE))
    for (const text of [stdout.text, stderr.text]) {
      expect(text).toContain('b')
      for (const bad of [ESC, '\u0007', '\u202e', '\u009b', '\r']) expect(text).not.toContain(bad)
    }
    expect(stdout.text.split('\n')).toHaveLength(4)
  })

  it('keeps its own colours and line feeds, and letters of every script', () => {
    expect(printable(`${ESC}[1mnode${ESC}[22m\n${ESC}[5mblink`, 'keep')).toBe(`${ESC}[1mnode${ESC}[22m\n\ufffd[5mblink`)
    expect(printable('Grüße 日本語 👩‍🚀\tשלום')).toBe('Grüße 日本語 👩‍🚀\tשלום')
  })
})
