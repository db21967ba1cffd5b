import { stripVTControlCharacters } from 'node:util'
import ora, { type Ora } from 'ora'
import picocolors from 'picocolors'
import { EXIT_CODES, RookeryError } from '../errors.ts'
import { printableJson } from '../platform/printable-json.ts'

/** Where a command writes: a terminal, a pipe, or a test's buffers. */
export interface Streams {
  stdout: NodeJS.WriteStream | (NodeJS.WritableStream & { isTTY?: boolean; columns?: number })
  stderr: NodeJS.WriteStream | (NodeJS.WritableStream & { isTTY?: boolean })
}

const ESCAPE = String.fromCharCode(0x1b)
/** The colours that {@link Output.paint} writes; no other sequence reaches a terminal. */
const COLOURS = new RegExp(`${ESCAPE}\\[(?:0|1|2|22|3[0-9])m`, 'g')
/** Control characters but line feed and tab, and what turns the direction of writing around. */
const UNPRINTABLE = /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/gu
const replaced = (text: string) => text.replaceAll(UNPRINTABLE, '\ufffd')

/** Text that others may have written, without what would steer the terminal. */
export function printable(text: string, colours: 'keep' | 'drop' = 'drop'): string {
  if (colours === 'drop') return replaced(text)
  let out = ''
  let from = 0
  for (const match of text.matchAll(COLOURS)) {
    out += replaced(text.slice(from, match.index)) + match[0]
    from = match.index + match[0].length
  }
  return out + replaced(text.slice(from))
}

export interface OutputOptions {
  json: boolean
  color: 'auto' | 'never'
}

/**
 * One command's output. People read text on stdout and progress on stderr; programs read one JSON document on stdout (`--json`), and a
 * failure as `{"error": …}` on stderr. Colour only on a terminal.
 */
export class Output {
  readonly json: boolean
  readonly paint: ReturnType<typeof picocolors.createColors>
  readonly #streams: Streams
  #spinner: Ora | undefined
  /** lines of the view on the terminal */
  #drawn = 0

  constructor(streams: Streams, options: OutputOptions) {
    this.json = options.json
    this.#streams = streams
    this.paint = picocolors.createColors(
      options.color === 'auto' && streams.stdout.isTTY === true && picocolors.isColorSupported && !options.json
    )
  }

  /** The command's result: `value` as JSON, or what `human` prints. */
  result(value: unknown, human: () => void): void {
    this.done()
    if (this.json)
      this.#streams.stdout.write(`${printableJson(JSON.stringify(value, null, this.#streams.stdout.isTTY === true ? 2 : 0))}\n`)
    else human()
  }

  /** A line for people; nothing in JSON mode. */
  line(text = ''): void {
    if (this.json) return
    this.#pause(() => this.#streams.stdout.write(`${this.#printable(text)}\n`))
  }

  /** A note beside the result, on stderr in both modes. */
  note(text: string): void {
    this.#pause(() => this.#streams.stderr.write(`${this.#printable(text)}\n`))
  }

  #printable(text: string): string {
    return printable(text, this.paint.isColorSupported ? 'keep' : 'drop')
  }

  /** What is being waited for: a spinner on a terminal, a line elsewhere, silence in JSON mode. */
  progress(given: string): void {
    if (this.json) return
    const text = this.#printable(given)
    if (this.#streams.stderr.isTTY !== true) {
      this.#streams.stderr.write(`… ${text}\n`)
      return
    }
    if (this.#spinner === undefined)
      this.#spinner = ora({ text, stream: this.#streams.stderr as NodeJS.WriteStream, discardStdin: false }).start()
    else this.#spinner.text = text
  }

  /** Where a progress bar may be drawn; undefined where people do not watch. */
  get terminal(): NodeJS.WritableStream | undefined {
    return !this.json && this.#streams.stderr.isTTY === true ? this.#streams.stderr : undefined
  }

  /** Ends the progress line. */
  done(): void {
    this.#spinner?.stop()
    this.#spinner = undefined
  }

  table(head: string[], rows: string[][]): void {
    if (rows.length > 0) for (const line of this.rows(head, rows)) this.line(line)
  }

  /** A table's lines, the bold head first. */
  rows(head: readonly string[], given: readonly string[][]): string[] {
    const rows = given.map((row) => row.map((cell) => cell.replaceAll(/\s+/g, ' ')))
    const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => (row[i] ?? '').length)))
    const format = (row: readonly string[]) =>
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd()
    return [this.paint.bold(format(head)), ...rows.map(format)]
  }

  /** One JSON object on a line of its own, for commands that go on telling; nothing for people. */
  jsonLine(value: unknown): void {
    if (this.json) this.#streams.stdout.write(`${printableJson(JSON.stringify(value))}\n`)
  }

  /** Whether {@link draw} writes over what it drew before. */
  get redraws(): boolean {
    return !this.json && this.#streams.stdout.isTTY === true
  }

  /** A view that changes: on a terminal in place, cut to its width and height; elsewhere one below the other, parted by an empty line. */
  draw(given: readonly string[]): void {
    if (this.json) return
    this.done()
    const lines = given.map((line) => this.#printable(line))
    if (!this.redraws) {
      this.#streams.stdout.write(`${lines.join('\n')}\n\n`)
      return
    }
    const { columns = 80, rows = 24 } = this.#streams.stdout as { columns?: number; rows?: number }
    const shown = lines.slice(0, Math.max(1, rows - 1)).map((line) => cut(line, columns))
    this.#streams.stdout.write(`${this.#drawn === 0 ? '\x1b[?25l' : `\x1b[${this.#drawn}A`}\x1b[0J${shown.join('\n')}\n`)
    this.#drawn = shown.length
  }

  /** Leaves the last view where it is and gives the terminal back its cursor. */
  drawn(): void {
    if (this.#drawn > 0) this.#streams.stdout.write('\x1b[?25h')
    this.#drawn = 0
  }

  #pause(write: () => void): void {
    const text = this.#spinner?.text
    this.done()
    write()
    if (text !== undefined) this.progress(text)
  }

  /** Prints a failure with its field, value and remedy; gives the exit code of its kind. */
  failure(error: unknown): number {
    this.done()
    const known = error instanceof RookeryError ? error : undefined
    if (this.json) {
      const body = known?.toJSON() ?? {
        code: 'INTERNAL',
        kind: 'internal',
        message: error instanceof Error ? error.message : String(error)
      }
      this.#streams.stderr.write(`${printableJson(JSON.stringify({ error: body }))}\n`)
    } else if (known !== undefined) {
      const lines = [`${this.paint.red('error')} ${known.code}: ${known.message}`]
      if (known.field !== undefined) lines.push(`  field   ${known.field}`)
      if (known.value !== undefined) lines.push(`  value   ${typeof known.value === 'string' ? known.value : JSON.stringify(known.value)}`)
      if (known.remedy !== undefined) lines.push(`  remedy  ${known.remedy}`)
      this.#streams.stderr.write(`${this.#printable(lines.join('\n'))}\n`)
    } else {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
      this.#streams.stderr.write(`${this.#printable(`${this.paint.red('error')} INTERNAL: ${text}`)}\n`)
    }
    return EXIT_CODES[known?.kind ?? 'internal']
  }
}

/** At most so many characters; colours take none of them. */
function cut(line: string, columns: number): string {
  if (stripVTControlCharacters(line).length <= columns) return line
  return stripVTControlCharacters(line).slice(0, columns)
}

export function age(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 90) return `${seconds} s`
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min`
  if (seconds < 129_600) return `${Math.round(seconds / 3_600)} h`
  return `${Math.round(seconds / 86_400)} d`
}

export function bytesText(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`
  if (bytes < 1_048_576) return `${(bytes / 1_024).toFixed(1)} KiB`
  return `${(bytes / 1_048_576).toFixed(1)} MiB`
}

/** `1 agent`, `2 agents` */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
