import { equals } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { digestOf } from '../../protocol/ecc/digests.ts'
import { matchRequirements } from '../../protocol/ecc/match.ts'
import { receiptIn, rejectionOf } from '../../protocol/ecc/metadata.ts'
import {
  type CapabilityContract,
  type ExecutionReceipt,
  type ExecutionRejection,
  type ExecutionRequirements,
  readContract,
  readRequirements
} from '../../protocol/ecc/objects.ts'
import { type ExecutionResult, verifyExecution } from '../../protocol/ecc/receipts.ts'
import { type ExecutionPolicy, tighten } from '../../protocol/ecc/tighten.ts'
import { contractUriIn, EDGE_CLOUD_CONTRACT_URI, EDGE_CLOUD_CONTRACT_URIS } from '../../protocol/ecc/uris.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import { verifyJws } from '../../protocol/jws.ts'
import { RookeryError } from '../errors.ts'
import { marked } from '../tasks/execution.ts'
import type { JsonObject } from '../tasks/todo.ts'

/** A request whose execution is bound: by what, and under which contract it was matched before it was sent. */
export interface BoundRequest {
  /** carries the requirements, and names the extension */
  message: JsonObject
  requirements: ExecutionRequirements
  contract: CapabilityContract
}

/** What became of the requirements of a request. */
export type ExecutionStanding =
  /** the receipt was verified against contract, requirements and result */
  | { status: 'verified'; receipt: ExecutionReceipt }
  /** accepted under the requirements, and not ended yet */
  | { status: 'pending' }
  /** the task was rejected before anything was done */
  | { status: 'rejected'; cause: ExecutionRejection['cause']; field: string }
  /** the task ended without a result that meets the requirements, and says so */
  | { status: 'failed' }

/**
 * Binds a message to requirements, tightened by a policy, and matches them with the contract on the agent's card, which only ever says what the agent claims.
 * Nothing is sent where that fails.
 * @param card - verified (ECC-12)
 * @throws RookeryError `REQUIREMENTS_INVALID`, `POLICY_REFUSED`, `CONTRACT_MISSING`, `CONTRACT_INVALID`, `EXECUTION_REFUSED` (data.cause)
 */
export function bindExecution(input: {
  card: JsonObject
  message: JsonObject
  requirements: unknown
  policy: ExecutionPolicy
  nowMs: number
}): BoundRequest {
  const given = readRequirements(input.requirements)
  if (!given.ok) throw invalid('REQUIREMENTS_INVALID', 'requirements', given.violations, input.requirements)
  const requirements = tighten(given.value, input.policy)
  if (requirements === undefined) {
    throw new RookeryError('POLICY_REFUSED', 'the requirements and edgeCloud.policy leave no site or region that both allow', {
      kind: 'refused',
      field: 'edgeCloud.policy',
      remedy: 'allow something in the requirements that the policy allows too'
    })
  }
  const params = contractOn(input.card)
  if (params === undefined) {
    throw new RookeryError('CONTRACT_MISSING', 'the agent’s card has no edge-cloud contract, so it keeps to no requirements', {
      kind: 'refused',
      field: 'requirements',
      remedy: 'send without requirements, or to an agent with a contract'
    })
  }
  const contract = readContract(params)
  if (!contract.ok) throw invalid('CONTRACT_INVALID', 'contract', contract.violations, params)
  const match = matchRequirements({
    contract: contract.value,
    contractDigest: digestOf(contract.value),
    requirements,
    nowMs: input.nowMs
  })
  if (match.outcome === 'malformed') throw invalid('REQUIREMENTS_INVALID', 'requirements', match.violations, requirements)
  if (match.outcome === 'refused') throw refused(match)
  const metadata = { [EDGE_CLOUD_CONTRACT_URI]: requirements as unknown as JsonObject }
  return { message: marked(input.message, metadata), requirements, contract: contract.value }
}

/** The same in the words of an agent that refused, of a policy, or of our own match. */
export function refused({ cause, field }: { cause: string; field: string }): RookeryError {
  return new RookeryError('EXECUTION_REFUSED', `the agent's contract does not meet the requirements: ${cause}`, {
    kind: 'refused',
    ...(field === '' ? {} : { field: `requirements.${field}` }),
    data: { cause, field },
    remedy: 'ask an agent whose contract does, or require less'
  })
}

/**
 * What an answer says about the requirements. An answer that does not name the extension, and a result without a receipt that verifies, count as nothing.
 * @param task - A2A Task in ProtoJSON
 * @param agent - whose key may attest
 * @throws RookeryError `EXECUTION_NOT_ACTIVATED`, `EXECUTION_UNVERIFIED` (data.fault, data.task)
 */
export function standingOf(
  crypto: CryptoProvider,
  { requirements, contract, message }: BoundRequest,
  answer: { task: JsonObject; activated: readonly string[]; agent: Eid }
): ExecutionStanding {
  const { task, activated, agent } = answer
  const status = member(task, 'status')
  const statusMessage = member(status, 'message')
  const state = member(status, 'state')
  if (contractUriIn(activated) === undefined) {
    throw new RookeryError('EXECUTION_NOT_ACTIVATED', 'the agent answered without saying that it keeps to the requirements', {
      kind: 'refused',
      data: { task },
      remedy: 'do not count them as met; ask the agent for its card again'
    })
  }
  switch (state) {
    case 'TASK_STATE_COMPLETED':
      break
    case 'TASK_STATE_FAILED':
    case 'TASK_STATE_CANCELED':
      return { status: 'failed' }
    case 'TASK_STATE_REJECTED': {
      const rejection = rejectionOf(statusMessage)
      return rejection?.ok === true
        ? { status: 'rejected', cause: rejection.value.cause, field: rejection.value.field }
        : { status: 'failed' }
    }
    default:
      return { status: 'pending' }
  }
  const artifacts = Array.isArray(task.artifacts) ? task.artifacts : []
  const result: ExecutionResult = { artifacts }
  const receipt = receiptIn({ artifacts: [...artifacts, statusMessage ?? {}] })
  if (receipt === undefined) throw unverified('RECEIPT_MISSING', '', task)
  if (!receipt.ok) throw unverified('RECEIPT_INVALID', receipt.violations[0]?.field ?? '', task)
  const verdict = verifyExecution(
    {
      contract,
      requirements,
      receipt: receipt.value,
      result,
      messageId: String(message.messageId),
      ...(typeof task.id === 'string' ? { taskId: task.id } : {}),
      verify: (attestation, text) => isBy(crypto, attestation, text, agent)
    },
    (bytes) => crypto.sha256(bytes)
  )
  if (verdict.outcome === 'refused') throw unverified(verdict.fault, verdict.field, task)
  return { status: 'verified', receipt: verdict.receipt }
}

function isBy(crypto: CryptoProvider, attestation: { protected: string; signature: string }, text: string, agent: Eid): boolean {
  try {
    return equals(verifyJws(crypto, attestation, text), agent)
  } catch (error) {
    if (error instanceof ProtocolError) return false
    throw error
  }
}

/** `AgentExtension.params` under either spelling. */
function contractOn(card: JsonObject): unknown {
  const extensions = member(member(card, 'capabilities'), 'extensions')
  const entries = Array.isArray(extensions) ? extensions : []
  for (const uri of EDGE_CLOUD_CONTRACT_URIS) {
    const entry = entries.find((one) => member(one, 'uri') === uri)
    if (entry !== undefined) return member(entry, 'params')
  }
  return undefined
}

function unverified(fault: string, field: string, task: JsonObject): RookeryError {
  return new RookeryError(
    'EXECUTION_UNVERIFIED',
    `the result came without a receipt that holds: ${fault}${field === '' ? '' : ` (${field})`}`,
    {
      kind: 'refused',
      data: { fault, field, task },
      remedy: 'do not use the result as if the requirements were met'
    }
  )
}

function invalid(code: string, what: string, violations: readonly { field: string; problem: string }[], value: unknown): RookeryError {
  const [first = { field: '', problem: 'is none' }] = violations
  const field = first.field === '' ? what : `${what}.${first.field}`
  return new RookeryError(code, `${field} ${first.problem}`, {
    kind: code === 'CONTRACT_INVALID' ? 'refused' : 'usage',
    field,
    value: first.field === '' ? undefined : valueAt(value, first.field),
    remedy: 'see docs/edge-cloud-contract.md for what it may be'
  })
}

function valueAt(value: unknown, field: string): unknown {
  let at = value
  for (const [step] of field.matchAll(/[^.[\]]+/g)) at = member(at, step)
  return at
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
}
