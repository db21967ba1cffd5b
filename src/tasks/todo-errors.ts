import { RookeryError } from '../errors.ts'
import type { Todo } from './todo.ts'

export function todoUnknown(id: string): RookeryError {
  return new RookeryError('TODO_UNKNOWN', `no task ${id.slice(0, 80)}`, { kind: 'notFound', field: 'id', value: id.slice(0, 80) })
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

/** @param bound - which one, `data.kind` of the error */
export function todoLimit(bound: string, max: number, remedy = 'wait until earlier tasks have ended, or cancel some'): RookeryError {
  return new RookeryError('TODO_LIMIT', `the bound of ${max} (${bound}) is reached`, {
    kind: 'refused',
    data: { kind: bound, max },
    remedy
  })
}

export function leaseLost(todo: Todo): RookeryError {
  return new RookeryError('LEASE_LOST', `Todo ${todo.id} is ${todo.state} and not held by this worker any more`, {
    kind: 'conflict',
    data: { state: todo.state }
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
