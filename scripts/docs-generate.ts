/** Writes docs/reference/ from the settings' schema and the commands. `npm run docs:generate`; a test holds that the files are what this gives. */
import type { EventEmitter } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { commandTree } from '../src/cli/main.ts'
import { configJsonSchema, defaultsByName } from '../src/config/json-schema.ts'
import { isLive } from '../src/config/reload.ts'
import { listSettings } from '../src/config/setting-list.ts'
import { SETTING_WORDS } from '../src/config/setting-words.ts'
import { EXIT_CODES } from '../src/errors.ts'

const FOLDER = join(import.meta.dirname, '../docs/reference')
const NOTE = '<!-- Made by `npm run docs:generate`; a change here is lost. -->'

type Node = { [key: string]: unknown }

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
const code = (value: unknown) => `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``

/** What a setting may be, in a few words, from its JSON Schema. */
function allowed(node: Node | undefined): string {
  if (node === undefined) return ''
  if (Array.isArray(node.enum)) return node.enum.map((one) => code(one)).join(', ')
  if (Array.isArray(node.anyOf))
    return node.anyOf
      .map((one) => allowed(one as Node))
      .filter((one) => one !== '')
      .join(' or ')
  if (node.const !== undefined) return code(node.const)
  if (typeof node.pattern === 'string' && node.pattern.includes('(ms|s|m|h|d)')) return 'a duration such as `90s`, `15m`, `7d`'
  if (node.type === 'integer' || node.type === 'number') {
    const { minimum, maximum } = node
    if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}`
    return 'a number'
  }
  if (node.type === 'boolean') return '`true`, `false`'
  if (node.type === 'array') return `a list${typeof node.maxItems === 'number' ? ` of at most ${node.maxItems}` : ''}`
  if (node.type === 'object') return 'a map'
  return node.type === 'string' ? 'text' : ''
}

export function configurationReference(): string {
  const schema = configJsonSchema()
  const defaults = defaultsByName()
  const groups = new Map<string, string[]>()
  for (const setting of listSettings()) {
    let node: Node | undefined = schema
    for (const part of setting.path) node = (node?.properties as Node | undefined)?.[part] as Node | undefined
    const value = defaults.get(setting.name)
    const group = setting.path.length > 1 ? (setting.path[0] as string) : ''
    const rows = groups.get(group) ?? []
    rows.push(
      `| \`${setting.name}\` | ${cell(SETTING_WORDS[setting.name] ?? '')} | ${value === undefined ? '' : cell(code(value))} | ${cell(allowed(node))} | ${isLive(setting) ? 'yes' : ''} | \`${setting.variable}\` |`
    )
    groups.set(group, rows)
  }
  const sections = [...groups].map(([group, rows]) => {
    const title = group === '' ? 'The node' : `\`${group}\``
    return `## ${title}\n\n| setting | meaning | default | allowed | followed live | variable |\n|---|---|---|---|---|---|\n${rows.join('\n')}\n`
  })
  return `# Settings

${NOTE}

A setting is looked for in this order; what comes later wins: its default, \`config.yaml\` (or \`config.json\`) in the data directory, the environment variable, the flag of \`rookery start\`. Unknown names in the file are refused; an unknown \`ROOKERY_*\` variable is a warning. \`rookery config show\` tells what is in force and where it was set; \`rookery config reload\` takes over what can be followed live.

Lists in a variable are parted by commas; maps are JSON.

${sections.join('\n')}`
}

const escaped = (text: string) => text.replaceAll('<', '&lt;').replaceAll('|', '\\|')

function commandSection(command: Command, name: string): string {
  const help = command.createHelp()
  const usage = help.commandUsage(command)
  const options = help.visibleOptions(command).filter((one) => one.long !== '--help')
  const rows = options.map((one) => {
    const value =
      one.defaultValue === undefined || one.defaultValue === false || one.defaultValue === true
        ? ''
        : ` Default: ${code(one.defaultValue)}.`
    const choices = one.argChoices === undefined ? '' : ` One of ${one.argChoices.map(code).join(', ')}.`
    return `| \`${one.flags}\` | ${escaped(one.description)}${choices === '' && value === '' ? '' : '.'}${choices}${value} |`
  })
  let after = ''
  const context = {
    write(text: string) {
      after += text
    },
    command,
    error: false
  }
  // the types of a command leave out that it emits its help texts
  ;(command as unknown as EventEmitter).emit('afterHelp', context)
  const table = rows.length === 0 ? '' : `\n| option | |\n|---|---|\n${rows.join('\n')}\n`
  const example = after.trim() === '' ? '' : `\n\`\`\`text\n${after.trim()}\n\`\`\`\n`
  return `## ${name}\n\n\`${usage}\`\n\n${escaped(command.description())}\n${table}${example}`
}

export function cliReference(): string {
  const sections: string[] = []
  const visit = (command: Command, before: string) => {
    for (const child of command.commands) {
      if (child.name() === 'help') continue
      const name = `${before}${child.name()}`
      sections.push(commandSection(child, name))
      visit(child, `${name} `)
    }
  }
  const program = commandTree()
  visit(program, 'rookery ')
  const globals = program
    .createHelp()
    .visibleOptions(program)
    .map((one) => `| \`${one.flags}\` | ${escaped(one.description)} |`)
  return `# Commands

${NOTE}

Every command takes these, before or after its own:

| option | |
|---|---|
${globals.join('\n')}

Results go to stdout, progress and notes to stderr. With \`--json\` a command prints one JSON document, or one a line where it goes on; a failure is \`{"error": {"code", "kind", "message", "field", "value", "remedy"}}\` on stderr.

| exit code | kind |
|---|---|
${Object.entries(EXIT_CODES)
  .map(([kind, number]) => `| ${number} | ${kind} |`)
  .join('\n')}

${sections.join('\n')}`
}

/** Every generated file by its name. */
export const references = (): Map<string, string> =>
  new Map([
    ['configuration.md', configurationReference()],
    ['cli.md', cliReference()]
  ])

if (import.meta.main) {
  mkdirSync(FOLDER, { recursive: true })
  for (const [name, text] of references()) writeFileSync(join(FOLDER, name), text)
}
