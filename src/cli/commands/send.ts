import { readFile, stat } from 'node:fs/promises'
import { basename, extname } from 'node:path'
import { CONTROL_BOUNDS, type ControlParams, type SendResult } from '../../api/methods.ts'
import { EXIT_CODES, RookeryError } from '../../errors.ts'
import type { RegisterCommand } from '../context.ts'
import { age, type Output } from '../output.ts'
import { partsText } from '../task-text.ts'
import { durationMs, requirements } from '../values.ts'
import { tellTaskEvent } from './task.ts'

/** Enough of the IANA registry for what people attach; anything else is bytes. */
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.txt': 'text/plain',
  '.md': 'text/markdown',
  '.json': 'application/json',
  '.csv': 'text/csv',
  '.html': 'text/html',
  '.pdf': 'application/pdf',
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg'
}

interface SendOptions {
  agent?: string
  text?: string
  file?: string[]
  messageId?: string
  wait?: number
  outbox?: boolean
  ttl?: number
  stream?: boolean
  require?: Record<string, string | number | string[]>
}

export const registerSend: RegisterCommand = (program, run) => {
  program
    .command('send <to>')
    .description('send an agent a message; it is kept on disk where the agent sleeps')
    .option('--agent <agent>', 'the sender, a local agent')
    .option('-t, --text <text>', 'a text part')
    .option('-f, --file <path>', 'a file part; may be given several times', (path: string, all: string[] = []) => [...all, path])
    .option('--message-id <id>', 'repeat with the same id after a lost answer: nothing runs twice')
    .option('--wait <duration>', 'how long to wait for the task to end; 0s returns once it is accepted', durationMs)
    .option('--outbox', 'hand it over: kept on this disk and tried until it is delivered or ends; see `rookery outbox`')
    .option('--ttl <duration>', 'how long it may wait, on this disk or another, before it ends; default: the longest', durationMs)
    .option('--stream', 'tell every event of the task as it comes, until it ends; Ctrl-C leaves and cancels nothing')
    .option(
      '--require <needs>',
      'execution requirements, name=value,… or JSON: the result counts only with a receipt that meets them',
      requirements
    )
    .addHelpText(
      'after',
      `
Example:
  rookery send did:key:z6Mk… --text "what does power cost tonight?" --wait 30s
  rookery send did:key:z6Mk… --text "write the report" --stream
  rookery send did:key:z6Mk… --text "book it" --require dataClassification=internal,allowedRegions=EU,maxSideEffect=reversible`
    )
    .action((to: string, options: SendOptions, command) =>
      run(command, async (invocation) => {
        if (options.text === undefined && options.file === undefined) {
          throw new RookeryError('MESSAGE_EMPTY', 'there is nothing to send', {
            kind: 'usage',
            field: '--text',
            remedy: 'give --text, --file or both'
          })
        }
        const files = await Promise.all((options.file ?? []).map(readPart))
        const { out } = invocation
        const streams = options.stream === true
        const params: ControlParams<'send'> = {
          to,
          ...(options.agent !== undefined ? { agent: options.agent } : {}),
          ...(options.text !== undefined ? { text: options.text } : {}),
          ...(files.length > 0 ? { files } : {}),
          ...(options.messageId !== undefined ? { messageId: options.messageId } : {}),
          ...(options.wait !== undefined ? { waitMs: options.wait } : {}),
          ...(options.outbox === true ? { via: 'outbox' as const } : {}),
          ...(options.ttl !== undefined ? { ttlMs: options.ttl } : {}),
          ...(options.require !== undefined ? { require: options.require } : {}),
          ...(streams ? { stream: true as const } : {})
        }
        const result = await invocation.call('send', params, streams ? { onEvent: (event) => tellTaskEvent(out, event) } : {})
        if (streams) out.jsonLine(result)
        if (!out.json || !streams) out.result(result, () => print(out, result, streams))
        return exitCodeOf(result)
      })
    )
}

async function readPart(path: string): Promise<{ name: string; mediaType: string; base64: string }> {
  try {
    const { size } = await stat(path)
    if (size > CONTROL_BOUNDS.requestBytesMax / 2) {
      throw new RookeryError('FILE_TOO_LARGE', `${path} has ${size} bytes`, {
        kind: 'usage',
        field: '--file',
        value: path,
        remedy: `a message carries at most about ${CONTROL_BOUNDS.requestBytesMax / 2} bytes; send a link instead`
      })
    }
    const bytes = await readFile(path)
    return {
      name: basename(path),
      mediaType: MEDIA_TYPES[extname(path).toLowerCase()] ?? 'application/octet-stream',
      base64: bytes.toString('base64')
    }
  } catch (cause) {
    if (cause instanceof RookeryError) throw cause
    throw new RookeryError('FILE_UNREADABLE', `${path} cannot be read: ${(cause as Error).message}`, {
      kind: 'usage',
      field: '--file',
      value: path,
      cause,
      remedy: 'give the path of a file that may be read'
    })
  }
}

function exitCodeOf(result: SendResult): number {
  const { status } = result.execution ?? {}
  if (status === 'rejected' || status === 'failed') return EXIT_CODES.refused
  if (result.outcome === 'queued' || result.outcome === 'asleep') return EXIT_CODES.asleep
  return result.outcome === 'queue-full' ? EXIT_CODES.refused : EXIT_CODES.ok
}

/** @param told - whether a stream has shown what the task brought */
function print(out: Output, result: SendResult, told: boolean): void {
  const { asleep } = result
  const back = asleep?.retryAfterSec === undefined ? '' : `, back in ${age(asleep.retryAfterSec * 1_000)}`
  switch (result.outcome) {
    case 'queued':
      out.line(`asleep: the message is on disk at the agent's node and will be handed over when it wakes${back}`)
      break
    case 'asleep':
      out.line(`asleep: nothing was queued${back}`)
      break
    case 'queue-full':
      out.line(`asleep, and its queue is full (${asleep?.kind ?? 'bound unknown'}): nothing was queued`)
      break
    case 'outbox':
      out.line(`on disk here and on its way: ${result.outbox?.id ?? ''}  ${result.outbox?.state ?? ''}`)
      break
    case 'message':
      out.line(partsText(result.message))
      break
    case 'task': {
      const task = result.task as
        | { id?: string; status?: { state?: string; message?: unknown }; artifacts?: { parts?: unknown }[] }
        | undefined
      out.line(`task ${task?.id ?? '?'}  ${(task?.status?.state ?? '').replace('TASK_STATE_', '').toLowerCase()}`)
      if (told) break
      for (const artifact of task?.artifacts ?? []) out.line(partsText(artifact))
      if (task?.status?.message !== undefined) out.line(partsText(task.status.message))
    }
  }
  if (result.execution !== undefined) out.line(standing(result.execution))
  out.note(`message ${result.messageId}, ${Math.round(result.elapsedMs)} ms`)
}

function standing(execution: NonNullable<SendResult['execution']>): string {
  switch (execution.status) {
    case 'verified': {
      const { site, latencyMs } = execution.receipt
      return `requirements met: ${site.kind} ${site.siteId} in ${site.region}, ${latencyMs} ms; the receipt was verified`
    }
    case 'pending':
      return 'requirements accepted, not met yet: the receipt comes with the result'
    case 'rejected':
      return `requirements not met, nothing was done: ${execution.cause}${execution.field === '' ? '' : ` (${execution.field})`}`
    case 'failed':
      return 'requirements not met: the task ended without a result that counts'
  }
}
