import { RookeryError } from '../errors.ts'
import { MESSAGE_ID_CHARS_MAX } from './message.ts'
import { stateClass } from './states.ts'
import type { Todo } from './todo.ts'

export function todoUnknown(id: string): RookeryError {
  return new RookeryError('TODO_UNKNOWN', `no task ${id.slice(0, 80)}`, {
    kind: 'notFound',
    field: 'id',
    value: id.slice(0, 80),
    remedy: 'list tasks with `rookery inbox`, those that wait for approval with `rookery approve`'
  })
}

export function todoTerminal(todo: Todo): RookeryError {
  return new RookeryError('TODO_TERMINAL', `task ${todo.id} is ${todo.state} and takes nothing more`, {
    kind: 'conflict',
    field: 'taskId',
    value: todo.id,
    data: { state: todo.state },
    remedy: 'send a new message in the same context'
  })
}

/** What the bounds on open Todos count, and the settings that raise them. */
const LIMITS: { readonly [bound: string]: { words: (max: string) => string; field: string } } = {
  open: { words: (max) => `${max} tasks are open here, the most that may be`, field: 'tasks.openMax' },
  caller: { words: (max) => `this caller has ${max} open tasks here, the most that one may have`, field: 'tasks.openPerCallerMax' }
}

/** @param bound - which one, `data.kind` of the error */
export function todoLimit(bound: string, max: number, remedy?: string): RookeryError {
  const { words, field } = LIMITS[bound] ?? {}
  const raise = field === undefined ? '' : `; the owner of the node can raise ${field}`
  return new RookeryError('TODO_LIMIT', words?.(max.toLocaleString('en')) ?? `the bound of ${max} (${bound}) is reached`, {
    kind: 'refused',
    ...(field === undefined ? {} : { field }),
    data: { kind: bound, max },
    remedy: remedy ?? `wait until earlier tasks have ended, or cancel some${raise}`
  })
}

export function leaseLost(todo: Todo): RookeryError {
  return new RookeryError('LEASE_LOST', `Todo ${todo.id} is ${todo.state} and not held by this worker any more`, {
    kind: 'conflict',
    field: 'id',
    value: todo.id,
    data: { state: todo.state },
    remedy: stateClass(todo.state) === 'active' ? 'claim it again: the lease ended' : 'leave it: it needs no more work from you'
  })
}

export function notFailed(todo: Todo): RookeryError {
  return new RookeryError('TODO_NOT_FAILED', `Todo ${todo.id} is ${todo.state}`, {
    kind: 'conflict',
    field: 'id',
    value: todo.id,
    data: { state: todo.state },
    remedy: 'only a Todo that failed can be tried again'
  })
}

export function notDead(todo: Todo): RookeryError {
  return new RookeryError('TODO_NOT_DEAD', `Todo ${todo.id} is no dead letter`, {
    kind: 'conflict',
    field: 'id',
    value: todo.id,
    data: { state: todo.state },
    remedy: 'list the dead letters'
  })
}

export function priorityInvalid(value: unknown): RookeryError {
  return new RookeryError('PRIORITY_INVALID', 'a priority is a whole number from 0 to 9', {
    kind: 'usage',
    field: 'priority',
    value,
    remedy: 'leave it out for 0'
  })
}

export function dedupKeyInvalid(): RookeryError {
  return new RookeryError('DEDUP_KEY_INVALID', `a dedup key has 1 to ${MESSAGE_ID_CHARS_MAX} characters`, {
    kind: 'usage',
    field: 'dedupKey',
    remedy: 'leave it out to use the messageId'
  })
}

export function queueInvalid(value: string): RookeryError {
  return new RookeryError('QUEUE_INVALID', 'the name of a queue has 1 to 64 characters of A-Z a-z 0-9 . _ -', {
    kind: 'usage',
    field: 'queue',
    value: value.slice(0, 80),
    remedy: 'leave it out for the only queue'
  })
}

export function approvalNotNeeded(id: string): RookeryError {
  return new RookeryError('APPROVAL_NOT_NEEDED', `Todo ${id} waits for no approval`, { kind: 'conflict', field: 'id', value: id })
}

export function messageIdReused(): RookeryError {
  return new RookeryError('MESSAGE_ID_REUSED', 'this messageId was used for another message before', {
    kind: 'conflict',
    field: 'message.messageId',
    remedy: 'give every new message an id of its own; send the same message again only unchanged'
  })
}

export function contextMismatch(): RookeryError {
  return new RookeryError('CONTEXT_MISMATCH', 'the message names a task and a context that do not belong together', {
    kind: 'usage',
    field: 'message.contextId',
    remedy: 'leave contextId out: it follows from taskId'
  })
}

export function contextInvalid(): RookeryError {
  return new RookeryError('CONTEXT_INVALID', 'contextId has 1 to 128 characters of A-Z a-z 0-9 . _ : - and must be free', {
    kind: 'usage',
    field: 'message.contextId',
    remedy: 'leave contextId out to get a new one'
  })
}
