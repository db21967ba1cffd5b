import type { CryptoProvider, Signer } from '../../protocol/crypto/provider.ts'
import { digestOf } from '../../protocol/ecc/digests.ts'
import { matchRequirements } from '../../protocol/ecc/match.ts'
import { requirementsOf } from '../../protocol/ecc/metadata.ts'
import { type CapabilityContract, type ExecutionRejection, readReceipt } from '../../protocol/ecc/objects.ts'
import { receiptOf, receiptText } from '../../protocol/ecc/receipts.ts'
import { contractUriIn, EDGE_CLOUD_CONTRACT_URI } from '../../protocol/ecc/uris.ts'
import { REFUSAL_CAUSES, type RefusalCause, SIGNED_RECEIPT_METHOD } from '../../protocol/ecc/vocabulary.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { signJws } from '../../protocol/jws.ts'
import { A2aError } from '../a2a/a2a-error.ts'
import { RookeryError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'
import type { ExecutionGate, ExecutionRefusal, TodoExecution } from '../tasks/execution.ts'
import type { JsonObject, Todo, TodoCreate } from '../tasks/todo.ts'

export interface ExecutionContractsComponents {
  /** the checked contract of an agent, by its home; undefined: it has none */
  contractOf: (home: EidHex) => CapabilityContract | undefined
  /** what the agent signs its receipts with; undefined: it is gone */
  signerOf: (home: EidHex) => Signer | undefined
  crypto: CryptoProvider
  clock: Clock
}

/** What a request is executed under, and the key that it is known by in place of its messageId (G-69). */
export interface Admission {
  uri: string
  execution: TodoExecution
  dedupKey: string | undefined
}

const REPLAY_SAFE = { true: 'yes', false: 'no' } as const

/** The edge-cloud contracts of this node's agents: what is on their cards, and whether a request may be executed under it (docs/edge-cloud-contract.md). */
export class ExecutionContracts implements ExecutionGate {
  readonly #c: ExecutionContractsComponents
  /** as many as contracts in effect */
  readonly #digests = new WeakMap<CapabilityContract, string>()

  constructor(components: ExecutionContractsComponents) {
    this.#c = components
  }

  /** The entry of `capabilities.extensions`, where the agent has a contract (ECC-03, ECC-27). */
  extension(home: EidHex): JsonObject[] {
    const contract = this.#c.contractOf(home)
    if (contract === undefined) return []
    return [
      {
        uri: EDGE_CLOUD_CONTRACT_URI,
        description: 'Where and how this agent executes; a claim, and no proof (experimental)',
        required: false,
        params: contract as unknown as JsonObject
      }
    ]
  }

  /**
   * What a request is executed under, before anything is done and before a Todo exists.
   * @param extensions - what the caller activates
   * @returns undefined for core A2A: nothing was activated, or the agent has no contract (G-64)
   * @throws A2aError `INVALID_PARAMS`, `UNSUPPORTED_OPERATION` whose metadata names the first constraint that fails (G-66)
   */
  admit(
    home: EidHex,
    { message, extensions }: { message: JsonObject; extensions: readonly string[] },
    arrivedAtMs?: number
  ): Admission | undefined {
    const uri = contractUriIn(extensions)
    if (uri === undefined || this.#c.contractOf(home) === undefined) return undefined
    const given = requirementsOf(message)
    if (given?.ok === false) {
      const [first = { field: '', problem: 'is no requirement' }] = given.violations
      throw new A2aError('INVALID_PARAMS', `${fieldOf(uri, first.field)}: ${first.problem}`, {
        metadata: { extension: uri },
        violations: given.violations.map(({ field, problem }) => ({ field: fieldOf(uri, field), description: problem }))
      })
    }
    const startedAtMs = arrivedAtMs ?? this.#c.clock.nowMs()
    const asked = { uri, messageId: String(message.messageId), startedAtMs, ...(given === undefined ? {} : { requirements: given.value }) }
    const agreed = this.#agree(home, asked)
    if ('cause' in agreed) throw unsupported(uri, agreed)
    return { uri, execution: agreed, dedupKey: given?.value.idempotencyKey }
  }

  /** As {@link admit}, for a message that waited: what does not hold any more is no error of a call, but the end of its Todo (G-70). */
  admitLate(
    home: EidHex,
    request: { message: JsonObject; extensions: readonly string[] },
    arrivedAtMs: number
  ): Admission | { uri: string; refused: ExecutionRefusal } | undefined {
    try {
      return this.admit(home, request, arrivedAtMs)
    } catch (error) {
      const uri = contractUriIn(request.extensions)
      if (uri === undefined || !(error instanceof A2aError)) throw error
      const { cause, field = '' } = error.metadata
      const known = REFUSAL_CAUSES.find((one) => one === cause)
      return {
        uri,
        refused: refusalOf(uri, known === undefined ? { cause: 'REQUIREMENTS_MALFORMED', field: '' } : { cause: known, field })
      }
    }
  }

  claim({ agent, execution }: Todo & { execution: TodoExecution }): ReturnType<ExecutionGate['claim']> {
    const agreed = this.#agree(agent, execution)
    return 'cause' in agreed ? { refused: refusalOf(execution.uri, agreed) } : { execution: agreed }
  }

  finish(todo: Todo & { execution: TodoExecution }): ReturnType<ExecutionGate['finish']> {
    const { execution } = todo
    const { contract, requirements, messageId } = execution
    const run = {
      receiptId: `${todo.id}-receipt`,
      taskId: todo.id,
      messageId,
      startedAtMs: execution.startedAtMs,
      finishedAtMs: this.#c.clock.nowMs(),
      result: { artifacts: todo.artifacts }
    }
    const receipt = receiptOf(execution, run, (bytes) => this.#c.crypto.sha256(bytes))
    const signer = contract.attestation.includes(SIGNED_RECEIPT_METHOD) ? this.#c.signerOf(todo.agent) : undefined
    const attested =
      signer === undefined
        ? receipt
        : { ...receipt, attestation: { method: SIGNED_RECEIPT_METHOD, ...signJws(signer, receiptText(receipt)) } }
    // Nothing leaves that is not on the schema's list of members and words (ECC-13).
    const checked = readReceipt(attested)
    if (!checked.ok) throw new TypeError(`a receipt of ours does not hold: ${JSON.stringify(checked.violations)}`)
    const metadata = { [execution.uri]: checked.value as unknown as JsonObject }
    if (requirements === undefined || receipt.verifierStatus === 'passed') return { metadata }
    const why = receipt.verifierStatus === 'failed' ? `it took ${receipt.latencyMs} ms` : 'a required check could not be made'
    return { metadata, fault: `the work was done, but not as it was required: ${why}` }
  }

  #agree(
    home: EidHex,
    asked: Pick<TodoExecution, 'uri' | 'messageId' | 'startedAtMs' | 'requirements'>
  ): TodoExecution | { cause: RefusalCause; field: string } {
    const contract = this.#c.contractOf(home)
    if (contract === undefined) return { cause: 'CONTRACT_CHANGED', field: '' }
    const contractDigest = this.#digestOf(contract)
    const nowMs = this.#c.clock.nowMs()
    const { uri, messageId, startedAtMs, requirements } = asked
    // Without requirements the caller only wants to be told: the widest ones find the site, and the end of the contract (G-64).
    const wanted = requirements ?? {
      version: '1.0',
      dataClassification: contract.dataClassifications[0],
      networkMode: contract.network.modes[0],
      maxSideEffect: 'consequential'
    }
    const match = matchRequirements({ contract, contractDigest, requirements: wanted, nowMs })
    if (match.outcome === 'malformed') throw new TypeError(`checked ${match.object} do not hold: ${JSON.stringify(match.violations)}`)
    if (match.outcome === 'refused') return match
    const { maxLatencyMs } = requirements ?? {}
    if (maxLatencyMs !== undefined && nowMs - startedAtMs > maxLatencyMs) return { cause: 'LATENCY_EXCEEDED', field: 'maxLatencyMs' }
    return {
      uri,
      contract,
      contractDigest,
      ...(requirements === undefined ? {} : { requirements }),
      messageId,
      site: match.site,
      startedAtMs,
      replaySafe: requirements === undefined ? 'yes' : REPLAY_SAFE[`${match.replaySafe}`]
    }
  }

  #digestOf(contract: CapabilityContract): string {
    let digest = this.#digests.get(contract)
    if (digest === undefined) {
      digest = digestOf(contract, (bytes) => this.#c.crypto.sha256(bytes))
      this.#digests.set(contract, digest)
    }
    return digest
  }
}

/** The members of a Todo for a message that waited. */
export function lateAdmission(late: ReturnType<ExecutionContracts['admitLate']>): Pick<TodoCreate, 'execution' | 'dedupKey' | 'refused'> {
  if (late === undefined) return {}
  if ('refused' in late) return { refused: late.refused }
  return { execution: late.execution, ...(late.dedupKey === undefined ? {} : { dedupKey: late.dedupKey }) }
}

/** What the Todo store says about a request that may be known by a key: another request under the same key is the contract's own refusal (G-69). */
export async function underKey<T>(admission: Admission | undefined, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (admission?.dedupKey === undefined || !(error instanceof RookeryError) || error.code !== 'MESSAGE_ID_REUSED') throw error
    throw unsupported(admission.uri, { cause: 'IDEMPOTENCY_CONFLICT', field: 'idempotencyKey' })
  }
}

function unsupported(uri: string, { cause, field }: { cause: RefusalCause; field: string }): A2aError {
  return new A2aError('UNSUPPORTED_OPERATION', `the execution requirements are not met: ${cause}${field === '' ? '' : ` (${field})`}`, {
    metadata: { extension: uri, cause, field }
  })
}

function refusalOf(uri: string, { cause, field }: { cause: RefusalCause; field: string }): ExecutionRefusal {
  const rejection: ExecutionRejection = { version: '1.0', cause, field }
  return { reason: `the execution requirements are not met any more: ${cause}`, metadata: { [uri]: rejection as unknown as JsonObject } }
}

function fieldOf(uri: string, field: string): string {
  return `message.metadata["${uri}"]${field === '' ? '' : `.${field}`}`
}
