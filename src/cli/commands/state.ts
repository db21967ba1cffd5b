import { readFileSync } from 'node:fs'
import { toString as bytesToString } from 'uint8arrays'
import type { ControlParams } from '../../api/methods.ts'
import type { StateChange, StateEntry } from '../../api/state-methods.ts'
import { RookeryError } from '../../errors.ts'
import type { StateInfo } from '../../state/state.ts'
import type { Json } from '../../tasks/todo.ts'
import type { RegisterCommand } from '../context.ts'
import { bytesText, counted, type Output } from '../output.ts'
import { durationMs } from '../values.ts'

type Change = ControlParams<'state.set'>['changes'][number]
interface SetOptions {
  text?: string
  file?: string
  merge?: string
  patch?: string
  delete?: true
  wait?: number
}

const PEERS_HEAD = ['SESSION', 'STATE', 'OWN', 'PEER', 'REMOTE']
const EXAMPLE_ID = '8d3f2c0a9b4e4f1d8a7c6b5e4d3c2b1a'

export const registerState: RegisterCommand = (program, run) => {
  const state = program
    .command('state')
    .description('what the two sides of a session show each other: each writes its own state, the other sees every change')
  state
    .command('peers')
    .description('sessions and how much state each side of them holds')
    .addHelpText('after', '\nExample:\n  rookery state peers')
    .action((_options, command) =>
      run(command, async (invocation) => {
        const peers = await invocation.call('state.peers', {})
        invocation.out.result(peers, () => {
          if (peers.length === 0) invocation.out.line('no sessions')
          invocation.out.table(
            PEERS_HEAD,
            peers.map(({ id, session, exclusive, own, peer, remote }) => [
              id,
              exclusive ? `${session}, exclusive` : session,
              infoText(own),
              infoText(peer),
              remote
            ])
          )
        })
      })
    )
  state
    .command('get <peer> [key]')
    .description('what a peer shows us, or with --own what we show it; without a key, all of it')
    .option('--own', 'our own state')
    .addHelpText('after', `\nExample:\n  rookery state get did:key:z6Mk…\n  rookery state get ${EXAMPLE_ID} load --own --json`)
    .action((peer: string, key: string | undefined, { own }: { own?: true }, command) =>
      run(command, async (invocation) => {
        const found = await invocation.call('state.get', { peer, side: own ? 'own' : 'peer', ...(key === undefined ? {} : { key }) })
        invocation.out.result(found, () => {
          if (found.entries.length === 0) invocation.out.line('nothing is there')
          for (const entry of found.entries) invocation.out.line(entryText(invocation.out, entry))
        })
      })
    )
  state
    .command('set <peer> <key> [json]')
    .description('write one key of our own state; the peer sees it at once')
    .option('--text <text>', 'the value is this text')
    .option('--file <path>', 'the value is the bytes of this file')
    .option('--merge <json>', 'merge into the JSON that is there (RFC 7396)')
    .option('--patch <json>', 'patch the JSON that is there (RFC 6902)')
    .option('--delete', 'take the key away')
    .option('--wait <duration>', 'how long to wait until the peer has it; default 10s', durationMs)
    .addHelpText(
      'after',
      `
Example:
  rookery state set did:key:z6Mk… load 0.7
  rookery state set ${EXAMPLE_ID} task --merge '{"done":true}'
  rookery state set ${EXAMPLE_ID} picture --file plan.png
  rookery state set ${EXAMPLE_ID} load --delete`
    )
    .action((peer: string, key: string, json: string | undefined, options: SetOptions, command) =>
      run(command, async (invocation) => {
        const { wait } = options
        const change = changeOf(key, json, options)
        const done = await invocation.call('state.set', { peer, changes: [change], ...(wait === undefined ? {} : { waitMs: wait }) })
        invocation.out.result(done, () =>
          invocation.out.line(
            done.outcome === 'acknowledged'
              ? `the peer has it: ${infoText(done.info)}`
              : `kept for the peer, which has not taken it yet: ${infoText(done.info)}`
          )
        )
      })
    )
  state
    .command('watch <peer> [keys...]')
    .description('follow what changes until Ctrl-C or the end of the session; with --json one object a line')
    .option('--own', 'our own state')
    .addHelpText('after', `\nExample:\n  rookery state watch did:key:z6Mk…\n  rookery state watch ${EXAMPLE_ID} load task --json`)
    .action((peer: string, keys: string[], { own }: { own?: true }, command) =>
      run(command, async (invocation) => {
        const { out, signal } = invocation
        try {
          const { ended } = await invocation.call(
            'state.watch',
            { peer, side: own ? 'own' : 'peer', ...(keys.length === 0 ? {} : { keys }) },
            {
              onEvent: (event) => {
                out.jsonLine(event)
                out.line(changeText(out, event as StateChange))
              }
            }
          )
          out.jsonLine({ kind: 'ended', reason: ended })
          out.line(`the session is over: ${ended}`)
        } catch (error) {
          if (!signal.aborted) throw error // Ctrl-C is its ordinary end
        }
        return undefined
      })
    )
}

/** @throws RookeryError `STATE_VALUE_MISSING`, `STATE_VALUE_INVALID`, `STATE_FILE_UNREADABLE` */
function changeOf(key: string, json: string | undefined, options: SetOptions): Change {
  const given = Object.entries({
    json,
    text: options.text,
    file: options.file,
    merge: options.merge,
    patch: options.patch,
    delete: options.delete
  })
    .filter(([, value]) => value !== undefined)
    .map(([name]) => name)
  if (given.length !== 1) {
    throw new RookeryError('STATE_VALUE_MISSING', given.length === 0 ? 'no value is given' : `${given.join(' and ')} are given at once`, {
      kind: 'usage',
      field: 'json',
      remedy: 'give one of: a JSON value, --text, --file, --merge, --patch, --delete'
    })
  }
  if (json !== undefined) return { op: 'set', key, value: parsed('json', json) }
  if (options.text !== undefined) return { op: 'set', key, value: options.text }
  if (options.file !== undefined) return { op: 'blob', key, base64: bytesToString(fileOf(options.file), 'base64pad') }
  if (options.merge !== undefined) return { op: 'merge', key, patch: parsed('--merge', options.merge) }
  if (options.patch === undefined) return { op: 'delete', key }
  const patch = parsed('--patch', options.patch)
  if (!Array.isArray(patch)) {
    throw new RookeryError('STATE_VALUE_INVALID', 'a JSON Patch is a list of operations', {
      kind: 'usage',
      field: '--patch',
      value: options.patch.slice(0, 200),
      remedy: `for example --patch '[{"op":"replace","path":"/done","value":true}]'`
    })
  }
  return { op: 'patch', key, patch }
}

function parsed(field: string, text: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch (cause) {
    throw new RookeryError('STATE_VALUE_INVALID', `${text.slice(0, 60)} is not JSON`, {
      kind: 'usage',
      field,
      value: text.slice(0, 200),
      remedy: 'quote texts as JSON does, or use --text',
      cause
    })
  }
}

function fileOf(path: string): Uint8Array {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw new RookeryError('STATE_FILE_UNREADABLE', `the file cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`, {
      kind: 'usage',
      field: '--file',
      value: path,
      remedy: 'name a file that this user may read',
      cause
    })
  }
}

function infoText({ status, keys, bytes }: StateInfo): string {
  return status === 'current' ? `${counted(keys, 'key')}, ${bytesText(bytes)}` : status
}

function entryText({ paint }: Output, entry: StateEntry): string {
  return `${paint.bold(entry.key)}  ${'base64' in entry ? `base64:${entry.base64}` : JSON.stringify(entry.value)}`
}

function changeText(out: Output, change: StateChange): string {
  switch (change.kind) {
    case 'watching':
      return `following the state of session ${change.id}`
    case 'set':
      return entryText(out, change)
    case 'delete':
      return `${out.paint.bold(change.key)}  deleted`
    case 'reset':
      return 'much has changed: look again with `rookery state get`'
    case 'status':
      return `the state is ${change.status}`
  }
}
