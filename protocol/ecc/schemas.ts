import type { JsonSchema } from './json-schema.ts'
import { DATA_CLASSIFICATIONS, NETWORK_MODES, REFUSAL_CAUSES, SIDE_EFFECTS, SITE_KINDS, VERIFIER_STATUSES } from './vocabulary.ts'

/** Longest text anywhere in these objects; there is no free text at all (G-71). */
const NAME: JsonSchema = { type: 'string', maxLength: 64, pattern: '^[A-Za-z0-9][A-Za-z0-9._~-]*$' }
/** Ids of tasks, messages and receipts, which their makers choose. */
const ID: JsonSchema = { type: 'string', maxLength: 256, pattern: '^[\\x21-\\x7E]+$' }
/** ISO 3166-1 or 3166-2, or `provider:region` (G-65). */
export const REGION: JsonSchema = {
  type: 'string',
  maxLength: 64,
  pattern: '^(?:[A-Z]{2}(?:-[A-Z0-9]{1,3})?|[a-z][a-z0-9-]{0,31}:[a-z0-9][a-z0-9-]{0,31})$'
}
const METHOD: JsonSchema = { type: 'string', maxLength: 128, pattern: '^(?:[a-z0-9][a-z0-9-]*|https://[\\x21-\\x7E]+)$' }
const DIGEST: JsonSchema = { type: 'string', maxLength: 72, pattern: '^sha-256:[0-9a-f]{64}$' }
const TIMESTAMP: JsonSchema = {
  type: 'string',
  maxLength: 24,
  pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$'
}
const JWS_PART: JsonSchema = { type: 'string', maxLength: 1_024, pattern: '^[A-Za-z0-9_-]+$' }
const VERSION: JsonSchema = { type: 'string', const: '1.0' }
const YEAR_SECONDS = 31_536_000

function listOf(items: JsonSchema, minItems = 0): JsonSchema {
  return { type: 'array', items, minItems, maxItems: 64, uniqueItems: true }
}

function oneOf(values: readonly string[]): JsonSchema {
  return { type: 'string', enum: values }
}

function whole(minimum: number, maximum: number = Number.MAX_SAFE_INTEGER): JsonSchema {
  return { type: 'integer', minimum, maximum }
}

function closed(properties: Record<string, JsonSchema>, optional: readonly string[] = []): JsonSchema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name))
  return { type: 'object', properties, required, additionalProperties: false }
}

function published(title: string, description: string, schema: JsonSchema): JsonSchema {
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', $id: `rookery:ecc/v1/${title}`, title, description, ...schema }
}

export const CAPABILITY_CONTRACT_SCHEMA = published(
  'CapabilityContract',
  'What an agent declares about where and how it executes: AgentExtension.params on its card. A claim, and no proof.',
  closed(
    {
      version: VERSION,
      contractId: NAME,
      notAfter: TIMESTAMP,
      sites: listOf(closed({ siteId: NAME, kind: oneOf(SITE_KINDS), regions: listOf(REGION, 1) }), 1),
      dataClassifications: listOf(oneOf(DATA_CLASSIFICATIONS), 1),
      latency: closed({ typicalMs: whole(0), maxMs: whole(1) }),
      network: closed({ modes: listOf(oneOf(NETWORK_MODES), 1), maxOfflineSeconds: whole(0, YEAR_SECONDS) }),
      sideEffects: closed(
        { class: oneOf(SIDE_EFFECTS), idempotency: oneOf(['none', 'keyed']), idempotencyTtlSeconds: whole(1, YEAR_SECONDS) },
        ['idempotencyTtlSeconds']
      ),
      verification: listOf(METHOD),
      attestation: listOf(METHOD)
    },
    ['notAfter']
  )
)

export const EXECUTION_REQUIREMENTS_SCHEMA = published(
  'ExecutionRequirements',
  'What a caller demands of the execution of one request: Message.metadata[URI].',
  closed(
    {
      version: VERSION,
      contractDigest: DIGEST,
      allowedSites: listOf(oneOf(SITE_KINDS), 1),
      allowedRegions: listOf(REGION, 1),
      deniedRegions: listOf(REGION),
      dataClassification: oneOf(DATA_CLASSIFICATIONS),
      maxLatencyMs: whole(1),
      networkMode: oneOf(NETWORK_MODES),
      maxSideEffect: oneOf(SIDE_EFFECTS),
      idempotencyKey: { type: 'string', maxLength: 128, pattern: '^[A-Za-z0-9._~-]{8,128}$' },
      requiredVerification: listOf(METHOD),
      requiredAttestation: listOf(METHOD)
    },
    [
      'contractDigest',
      'allowedSites',
      'allowedRegions',
      'deniedRegions',
      'maxLatencyMs',
      'networkMode',
      'maxSideEffect',
      'idempotencyKey',
      'requiredVerification',
      'requiredAttestation'
    ]
  )
)

const SITE_USED = closed({ siteId: NAME, kind: oneOf(SITE_KINDS), region: REGION })

export const EXECUTION_RECEIPT_SCHEMA = published(
  'ExecutionReceipt',
  'What the callee states about one execution: metadata[URI] of the first artifact of the task, or of the answering message.',
  closed(
    {
      version: VERSION,
      receiptId: ID,
      taskId: ID,
      messageId: ID,
      site: SITE_USED,
      contractDigest: DIGEST,
      requirementsDigest: DIGEST,
      resultDigest: DIGEST,
      startedAt: TIMESTAMP,
      finishedAt: TIMESTAMP,
      latencyMs: whole(0),
      networkMode: oneOf(NETWORK_MODES),
      sideEffects: closed({ class: oneOf(SIDE_EFFECTS), replaySafe: { type: 'boolean' } }),
      verifierStatus: oneOf(VERIFIER_STATUSES),
      verification: listOf(closed({ method: METHOD, status: oneOf(VERIFIER_STATUSES) })),
      attestation: closed({ method: METHOD, protected: JWS_PART, signature: JWS_PART })
    },
    ['requirementsDigest', 'attestation']
  )
)

export const EXECUTION_REJECTION_SCHEMA = published(
  'ExecutionRejection',
  'Why a task that existed already was not executed: status.message.metadata[URI] of a task in TASK_STATE_REJECTED.',
  closed({ version: VERSION, cause: oneOf(REFUSAL_CAUSES), field: { type: 'string', maxLength: 64, pattern: '^[A-Za-z0-9_.\\[\\]]*$' } })
)

/** As shipped beside this module, by file name. */
export const ECC_SCHEMA_FILES = {
  'capability-contract.schema.json': CAPABILITY_CONTRACT_SCHEMA,
  'execution-requirements.schema.json': EXECUTION_REQUIREMENTS_SCHEMA,
  'execution-receipt.schema.json': EXECUTION_RECEIPT_SCHEMA,
  'execution-rejection.schema.json': EXECUTION_REJECTION_SCHEMA
} as const
