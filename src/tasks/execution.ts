import type { CapabilityContract, ExecutionRequirements, ExecutionSite } from '../../protocol/ecc/objects.ts'
import type { JsonObject, Todo } from './todo.ts'
import { completed, type Move } from './transitions.ts'

/** Under which contract a Todo is executed, as it was agreed when it was made or claimed (docs/edge-cloud-contract.md). */
export interface TodoExecution {
  /** the spelling of the extension's URI that the caller activated */
  uri: string
  contract: CapabilityContract
  contractDigest: string
  /** absent: activated without any */
  requirements?: ExecutionRequirements
  /** of the request that they came with */
  messageId: string
  site: ExecutionSite
  /** when the request arrived, Unix ms */
  startedAtMs: number
  /** `no`: an attempt that was cut off is the last, since it may have had its effect */
  replaySafe: 'yes' | 'no'
}

/** Why a Todo is rejected: a sentence, and what its status message carries as metadata. */
export interface ExecutionRefusal {
  reason: string
  metadata: JsonObject
}

/** What the Todo store asks about work under a contract; the store itself knows none. */
export interface ExecutionGate {
  /** As work is about to begin: under what it runs now, or why it may not (G-70). */
  claim(todo: Todo & { execution: TodoExecution }): { execution: TodoExecution } | { refused: ExecutionRefusal }
  /**
   * The statement about work that ended, as metadata.
   * @param todo - with all its artifacts
   * @returns `fault` where it ended in a way that was not agreed: the Todo fails then (G-67)
   */
  finish(todo: Todo & { execution: TodoExecution }): { metadata: JsonObject; fault?: string }
}

export function isUnderContract(todo: Todo): todo is Todo & { execution: TodoExecution } {
  return todo.execution !== undefined
}

/**
 * As {@link completed}, with the receipt on the first artifact that comes with the end, else on the status message: so it reaches a reader of the stream in
 * the same commit as the state.
 */
export function executed(todo: Todo, artifacts: JsonObject[], message: JsonObject | undefined, gate: ExecutionGate): Move {
  const plain = completed(todo, artifacts, message)
  if (!isUnderContract(plain.todo)) return plain
  const { metadata, fault } = gate.finish(plain.todo)
  const [first, ...others] = artifacts
  const move =
    first === undefined
      ? completed(todo, [], marked(message ?? { parts: [{ text: fault ?? 'done' }] }, metadata))
      : completed(todo, [marked(first, metadata), ...others], message)
  if (fault === undefined) return move
  return {
    todo: { ...move.todo, state: 'failed', failure: fault },
    events: move.events.map((event) => (event.kind === 'ended' ? { ...event, reason: fault } : event))
  }
}

/** With metadata under the extension's URI, and the URI among its extensions (A2A §4.6.2). */
export function marked(carrier: JsonObject, metadata: JsonObject): JsonObject {
  const before =
    typeof carrier.metadata === 'object' && carrier.metadata !== null && !Array.isArray(carrier.metadata) ? carrier.metadata : {}
  const extensions = Array.isArray(carrier.extensions) ? carrier.extensions : []
  return {
    ...carrier,
    metadata: { ...before, ...metadata },
    extensions: [...extensions, ...Object.keys(metadata).filter((uri) => !extensions.includes(uri))]
  }
}
