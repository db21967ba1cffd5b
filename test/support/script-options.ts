import { type ParseArgsConfig, parseArgs } from 'node:util'

type Options = NonNullable<ParseArgsConfig['options']>
type Parsed<O extends Options, P extends boolean> = ReturnType<
  typeof parseArgs<{ options: O & { help: { type: 'boolean'; short: 'h'; default: false } }; allowPositionals: P }>
>

/** Ends the script as one that was called wrongly. */
export function refused(message: string, usage: string): never {
  process.stderr.write(`${message}\n\n${usage}`)
  process.exit(2)
}

/** What a script was given. `--help` tells the usage and ends with 0; what it does not know is named, with the usage, and ends with 2. */
export function scriptOptions<const O extends Options, const P extends boolean = false>(
  usage: string,
  options: O,
  allowPositionals: P = false as P
): Parsed<O, P> {
  const given = () => {
    try {
      return parseArgs({ options: { ...options, help: { type: 'boolean', short: 'h', default: false } }, allowPositionals })
    } catch (error) {
      return refused(error instanceof Error ? error.message : String(error), usage)
    }
  }
  const parsed = given() as Parsed<O, P>
  if ((parsed.values as { help?: boolean }).help === true) {
    process.stdout.write(usage)
    process.exit(0)
  }
  return parsed
}

/** The number that an option names, or what stands for it. */
export function wholeNumber(name: string, text: string | undefined, instead: number, usage: string, least = 1): number {
  if (text === undefined) return instead
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= least && text.trim() !== '') return value
  return refused(`--${name} is a whole number from ${least} on, not "${text}"`, usage)
}
