import { spawn } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Document, parseDocument } from 'yaml'
import { configFileOf } from '../../config/config-file.ts'
import { configJsonSchema, defaultsByName } from '../../config/json-schema.ts'
import { dataDirOf, type LoadedConfig, loadConfig } from '../../config/load.ts'
import { masked } from '../../config/masked.ts'
import { nearestName } from '../../config/nearest-name.ts'
import { isLive } from '../../config/reload.ts'
import { listSettings, type Setting } from '../../config/setting-list.ts'
import { SETTING_WORDS } from '../../config/setting-words.ts'
import { RookeryError } from '../../errors.ts'
import { writePrivateFile } from '../../platform/files.ts'
import type { Invocation, RegisterCommand } from '../context.ts'
import { counted } from '../output.ts'

/** A setting as it is in force. */
interface Shown {
  name: string
  value: unknown
  /** where it was set; absent: its default */
  from?: string
  /** whether a running node follows a change at once */
  live: boolean
  variable: string
  meaning: string | undefined
}

const load = ({ options, env }: Invocation) => loadConfig({ dataDir: options.data, configFile: options.config, env })

function valueAt(settings: unknown, path: readonly string[]): unknown {
  let at = settings
  for (const part of path)
    at = typeof at === 'object' && at !== null && Object.hasOwn(at, part) ? (at as { [key: string]: unknown })[part] : undefined
  return at
}

function shown(loaded: LoadedConfig): Shown[] {
  const defaults = defaultsByName()
  return listSettings().map((setting) => {
    const from = loaded.where(setting.path)
    return {
      name: setting.name,
      value: from === undefined ? (defaults.get(setting.name) ?? null) : masked(valueAt(loaded.given, setting.path), setting.path),
      ...(from === undefined ? {} : { from }),
      live: isLive(setting),
      variable: setting.variable,
      meaning: SETTING_WORDS[setting.name]
    }
  })
}

const text = (value: unknown) => (value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value))

function settingOf(name: string): Setting {
  const setting = listSettings().find((one) => one.name === name)
  if (setting !== undefined) return setting
  const names = listSettings().map((one) => one.name)
  const nearest = nearestName(name, names)
  const near =
    nearest === undefined ? listSettings().filter((one) => one.name.toLowerCase().includes(name.toLowerCase())) : [{ name: nearest }]
  throw new RookeryError('SETTING_UNKNOWN', `there is no setting ${name}`, {
    kind: 'usage',
    field: 'name',
    value: name,
    remedy:
      near.length > 0
        ? `one of these? ${near
            .map((one) => one.name)
            .slice(0, 5)
            .join(', ')}`
        : 'list them with `rookery config show`'
  })
}

export const registerConfig: RegisterCommand = (program, run) => {
  const config = program.command('config').description('the settings of this node: what is in force and where it was set')
  config.addHelpText('after', '\nExample:\n  rookery config show')

  config
    .command('show [name]')
    .description('settings in force, with the place where each was set; with a name, one of them or a group')
    .option('--changed', 'only those that differ from their defaults')
    .addHelpText('after', '\nExample:\n  rookery config show http')
    .action((name: string | undefined, { changed }: { changed?: true }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const loaded = load(invocation)
        const all = shown(loaded)
        const fits = all.filter((one) => name === undefined || one.name === name || one.name.startsWith(`${name}.`))
        if (name !== undefined && fits.length === 0) settingOf(name)
        const settings = fits.filter(({ from }) => changed !== true || from !== undefined)
        out.result({ dataDir: loaded.config.dataDir, file: loaded.file ?? null, warnings: loaded.warnings, settings }, () => {
          for (const warning of loaded.warnings) out.note(`warning: ${warning}`)
          out.line(`data  ${loaded.config.dataDir}\nfile  ${loaded.file ?? `none yet (${configFileOf(loaded.config.dataDir)})`}\n`)
          const [single] = settings
          if (settings.length === 1 && single !== undefined && single.name === name) {
            out.line(`${out.paint.bold(single.name)}  ${text(single.value)}\n${single.meaning ?? ''}`)
            out.line(
              `from      ${single.from ?? 'default'}\nvariable  ${single.variable}\nchange    ${single.live ? 'followed by `rookery config reload`' : 'needs a restart'}`
            )
            return
          }
          if (settings.length === 0) out.line('every setting has its default')
          out.table(
            ['setting', 'value', 'from'],
            settings.map((one) => [one.name, text(one.value), one.from ?? 'default'])
          )
        })
      })
    )

  config
    .command('check [file]')
    .description('check a settings file (default: the one in force) without starting anything')
    .addHelpText('after', '\nExample:\n  rookery config check ./config.yaml')
    .action((file: string | undefined, _options, command) =>
      run(command, async (invocation) => {
        const { out, options, env } = invocation
        const loaded = loadConfig({ dataDir: options.data, configFile: file ?? options.config, env })
        const set = shown(loaded).filter(({ from }) => from !== undefined).length
        out.result({ ok: true, file: loaded.file ?? null, set, warnings: loaded.warnings }, () => {
          for (const warning of loaded.warnings) out.note(`warning: ${warning}`)
          out.line(`${out.paint.green('ok')}  ${loaded.file ?? 'no file: all defaults'}, ${counted(set, 'setting')} set`)
        })
      })
    )

  config
    .command('set <name> <value>')
    .description('write a setting into the settings file, keeping its comments; the file is checked first')
    .addHelpText('after', '\nExample:\n  rookery config set queue.ttlMax 3d')
    .action((name: string, value: string, _options, command) =>
      run(command, (invocation) => edited(invocation, name, () => parsedValue(name, value)))
    )

  config
    .command('unset <name>')
    .description('take a setting out of the settings file, so that it has its default again')
    .addHelpText('after', '\nExample:\n  rookery config unset queue.ttlMax')
    .action((name: string, _options, command) => run(command, (invocation) => edited(invocation, name, () => undefined)))

  config
    .command('edit')
    .description('open the settings file in $VISUAL or $EDITOR; what does not pass the check is not kept')
    .addHelpText('after', '\nExample:\n  rookery config edit')
    .action((_options, command) => run(command, edit))

  config
    .command('reload')
    .description('let the running node read its settings anew, and tell what needs a restart')
    .addHelpText('after', '\nExample:\n  rookery config set logs.level debug && rookery config reload')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const result = await invocation.call('config.reload', {})
        out.result(result, () => {
          for (const warning of result.warnings) out.note(`warning: ${warning}`)
          if (result.applied.length + result.restart.length === 0) out.line('nothing changed')
          if (result.applied.length > 0) out.line(`${out.paint.green('in force')}  ${result.applied.join(', ')}`)
          if (result.restart.length > 0) out.line(`${out.paint.yellow('at the next start')}  ${result.restart.join(', ')}`)
        })
      })
    )

  config
    .command('schema')
    .description('JSON Schema of the settings file, for editors')
    .addHelpText('after', '\nExample:\n  rookery config schema > rookery.schema.json')
    .action((_options, command) =>
      run(command, async ({ out }) => {
        const schema = configJsonSchema()
        out.result(schema, () => out.line(JSON.stringify(schema, null, 2)))
      })
    )
}

/** As YAML reads it; a list may be written with commas. */
function parsedValue(name: string, value: string): unknown {
  const { kind } = settingOf(name)
  if (kind === 'list' && !/^\s*\[/.test(value)) return value.split(',').map((one) => one.trim())
  if (kind === 'text') return value
  const doc = parseDocument(value, { maxAliasCount: 0 } as never)
  return doc.errors.length > 0 ? value : doc.toJS({ maxAliasCount: 0 })
}

/** Changes one setting of the file; the changed text must pass the check before it takes the place of the former. */
async function edited(invocation: Invocation, name: string, wanted: () => unknown): Promise<undefined> {
  const { out, options, env } = invocation
  const setting = settingOf(name)
  const file = options.config ?? configFileOf(dataDirOf(options.data, env))
  const value = wanted()
  const before = existsSync(file) ? readFileSync(file, 'utf8') : ''
  if (before !== '') loadConfig({ dataDir: options.data, configFile: file, env: {} })
  const doc = before.trim() === '' ? new Document({}) : parseDocument(before)
  if (doc.contents === null) doc.contents = doc.createNode({}) as never
  if (value === undefined) doc.deleteIn(setting.path)
  else doc.setIn(setting.path, value)
  const after = file.endsWith('.json') ? `${JSON.stringify(doc.toJS(), null, 2)}\n` : doc.toString({ lineWidth: 0 })
  const trial = `${file}.new`
  try {
    writePrivateFile(trial, after)
    loadConfig({ dataDir: options.data, configFile: trial, env: {} })
  } catch (error) {
    rmSync(trial, { force: true })
    throw error instanceof RookeryError ? notWritten(error, file) : error
  }
  rmSync(trial, { force: true })
  writePrivateFile(file, after)
  const live = isLive(setting)
  out.result({ file, name, value: value ?? null, live }, () => {
    out.line(`${out.paint.green('written')}  ${file}: ${name} ${value === undefined ? 'has its default again' : `is ${text(value)}`}`)
    out.line(live ? 'a running node follows it after `rookery config reload`' : 'a running node follows it when it starts anew')
  })
  return undefined
}

/** What was tried stood in a file beside, which is gone: its lines are no help. */
function notWritten({ code, kind, message, field, value }: RookeryError, file: string): RookeryError {
  return new RookeryError(code, message.replace(/ \([^()]*, line \d+, column \d+\)$/, ''), {
    kind,
    ...(field === undefined ? {} : { field }),
    ...(value === undefined ? {} : { value }),
    remedy: `give another value; ${file} is as it was`
  })
}

/** The text was tried beside the file; people look for it in the file. */
function unmoved(error: RookeryError, trial: string, file: string): RookeryError {
  const { code, kind, field, value, remedy } = error
  const said = (words: string) => words.replaceAll(trial, file)
  return new RookeryError(code, said(error.message), {
    kind,
    ...(field === undefined ? {} : { field: said(field) }),
    ...(value === undefined ? {} : { value }),
    ...(remedy === undefined ? {} : { remedy: said(remedy) }),
    cause: error
  })
}

async function edit(invocation: Invocation): Promise<undefined> {
  const { out, options, env } = invocation
  const editor = env.VISUAL || env.EDITOR
  const file = options.config ?? configFileOf(dataDirOf(options.data, env))
  if (editor === undefined || editor === '') {
    throw new RookeryError('EDITOR_UNKNOWN', 'neither $VISUAL nor $EDITOR names an editor', {
      kind: 'usage',
      field: 'EDITOR',
      remedy: `set EDITOR, or edit ${file} and run \`rookery config check\``
    })
  }
  const trial = `${file}.new`
  if (existsSync(file)) copyFileSync(file, trial)
  else writeFileSync(trial, '', { mode: 0o600 })
  try {
    await runEditor(editor, trial, env)
    loadConfig({ dataDir: options.data, configFile: trial, env: {} })
    writePrivateFile(file, readFileSync(trial, 'utf8'))
  } catch (error) {
    if (error instanceof RookeryError && error.code === 'CONFIG_INVALID') {
      const kept = unmoved(error, trial, trial)
      throw new RookeryError(kept.code, `${kept.message}; ${file} is as it was`, {
        kind: 'config',
        ...(kept.field === undefined ? {} : { field: kept.field }),
        ...(kept.value === undefined ? {} : { value: kept.value }),
        remedy: `${kept.remedy ?? ''}; your text is in ${trial}`.replace(/^; /, '')
      })
    }
    rmSync(trial, { force: true })
    throw error
  }
  rmSync(trial, { force: true })
  out.result({ file }, () =>
    out.line(`${out.paint.green('written')}  ${file}; a running node follows it after \`rookery config reload\`, or when it starts anew`)
  )
  return undefined
}

function runEditor(editor: string, file: string, env: NodeJS.ProcessEnv): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const failed = (why: string) =>
    reject(
      new RookeryError('EDITOR_FAILED', `${editor} ${why}`, {
        kind: 'usage',
        field: 'EDITOR',
        value: editor,
        remedy: 'name a program that edits the file and then ends'
      })
    )
  // $EDITOR may hold arguments ("code --wait"), as git and crontab read it
  const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit', env })
  child.on('error', (error) => failed(error.message))
  child.on('exit', (code, signal) => (code === 0 ? resolve() : failed(`ended with ${signal ?? code}`)))
  return promise
}
