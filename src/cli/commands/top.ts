import { setTimeout as sleep } from 'node:timers/promises'
import type { VitalsResult } from '../../api/operator-methods.ts'
import { EXIT_CODES, RookeryError } from '../../errors.ts'
import type { Invocation, RegisterCommand } from '../context.ts'
import { ratesOf, TOP_SORTS, type TopChoice, topLines } from '../top-view.ts'

const EVERY_MS = 1_000
const WIDTH_OF_A_PIPE = 200
const CTRL_C = '\x03'
const ALTERNATE_SCREEN = '\x1b[?1049h\x1b[?25l'
const MAIN_SCREEN = '\x1b[?25h\x1b[?1049l'

export const registerTop: RegisterCommand = (program, run) => {
  program
    .command('top')
    .description('watch the running node: peers, sessions, queues, tasks a second, memory, event loop')
    .option('--once', 'print it once, measured over a second, and end; so it is without a terminal')
    .addHelpText(
      'after',
      `
Keys: q or Ctrl-C ends, s sorts the sessions by the next column, up and down move the mark.
With --json one object is printed and that is all.

Example:
  rookery top
  rookery top --once
  rookery top --json | jq .eventLoop`
    )
    .action((options: { once?: true }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const { stdin, stdout } = process
        if (options.once === true || out.json || !out.redraws || stdin.isTTY !== true) return await once(invocation)
        return await live(invocation, stdin, stdout)
      })
    )
}

async function once(invocation: Invocation): Promise<undefined> {
  const { out, signal } = invocation
  const before = await invocation.call('vitals', {})
  await sleep(EVERY_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
  const now = await invocation.call('vitals', {})
  const rates = ratesOf(before, now)
  out.result({ ...now, ...(rates === undefined ? {} : { perSecond: rates }) }, () => {
    for (const line of topLines(now, rates, { paint: out.paint, columns: WIDTH_OF_A_PIPE, choice: { sort: 'active', at: 0 } }))
      out.line(line)
  })
}

/** On the terminal's second screen, so that the first is as it was when this ends, however it ends. */
async function live(invocation: Invocation, stdin: NodeJS.ReadStream, stdout: NodeJS.WriteStream): Promise<number> {
  const { out, signal } = invocation
  const choice: TopChoice = { sort: 'active', at: 0 }
  const ended = new AbortController()
  let before: VitalsResult | undefined
  let now: VitalsResult | undefined
  let lost: string | undefined
  const draw = () => {
    if (now === undefined || ended.signal.aborted) return
    const { columns = 80, rows = 24 } = stdout
    const lines = topLines(now, ratesOf(before, now), { paint: out.paint, columns, rows, choice })
    if (lost !== undefined) lines[1] = out.paint.red(lost.slice(0, columns))
    // Drawn over what is there, each line wiped behind its end: no flicker.
    stdout.write(`\x1b[H${lines.map((line) => `${line}\x1b[K`).join('\r\n')}\x1b[J`)
  }
  const onKey = (text: string) => {
    if (text === 'q' || text === 'Q' || text === CTRL_C) return ended.abort()
    const last = Math.max(0, (now?.sessionList.length ?? 1) - 1)
    if (text === 's') choice.sort = TOP_SORTS[(TOP_SORTS.indexOf(choice.sort) + 1) % TOP_SORTS.length] ?? 'active'
    else if (text === '\x1b[A' || text === 'k') choice.at = Math.max(0, Math.min(choice.at, last) - 1)
    else if (text === '\x1b[B' || text === 'j') choice.at = Math.min(last, choice.at + 1)
    draw()
  }
  now = await invocation.call('vitals', {})
  const restore = () => {
    stdin.off('data', onKey)
    stdin.setRawMode(false)
    stdin.pause()
    stdout.off('resize', draw)
    stdout.write(MAIN_SCREEN)
  }
  stdin.setRawMode(true)
  stdin.setEncoding('utf8')
  stdin.on('data', onKey)
  stdin.resume()
  stdout.on('resize', draw)
  stdout.write(ALTERNATE_SCREEN)
  const over = AbortSignal.any([signal, ended.signal])
  try {
    for (;;) {
      draw()
      await sleep(EVERY_MS, undefined, { signal: over }).catch(() => {})
      if (over.aborted) break
      try {
        const next = await invocation.call('vitals', {}, { progress: 'quiet' })
        before = now
        now = next
        lost = undefined
      } catch (error) {
        if (!(error instanceof RookeryError) || signal.aborted) throw error
        lost = `${error.message}; trying again`
      }
    }
  } finally {
    restore()
  }
  return EXIT_CODES.ok
}
