import { fromUtf8, utf8 } from '../../../protocol/bytes.ts'
import { canonicalJson } from '../../../protocol/canonical-json.ts'
import { canonicalCard } from '../../../protocol/card/canonical-card.ts'
import { verifyCard } from '../../../protocol/card/card-signature.ts'
import { decodeCbor, encodeCbor } from '../../../protocol/cbor.ts'
import { readOfflineDeliveryExtension } from '../../../protocol/delivery/card-extension.ts'
import { sealedExtensions } from '../../../protocol/delivery/sealed-request.ts'
import { formatSpaceName, parseSpaceName, parseSpaceQuery, topicPrefixes } from '../../../protocol/discovery/names.ts'
import { digestOf, resultDigest } from '../../../protocol/ecc/digests.ts'
import { matchRequirements } from '../../../protocol/ecc/match.ts'
import { contractMetadata, receiptIn, rejectionOf, requirementsOf } from '../../../protocol/ecc/metadata.ts'
import { readContract, readReceipt, readRejection, readRequirements } from '../../../protocol/ecc/objects.ts'
import { verifyExecution } from '../../../protocol/ecc/receipts.ts'
import { EDGE_CLOUD_CONTRACT_URIS } from '../../../protocol/ecc/uris.ts'
import { checkedEid, eid, eidFromDid, eidToDid } from '../../../protocol/identity/eid.ts'
import { openRotation } from '../../../protocol/identity/rotation.ts'
import { verifyJws } from '../../../protocol/jws.ts'
import { parseCanonicalJson } from '../../../protocol/state/json.ts'
import { parseStrictJson } from '../../../protocol/strict-json.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import { aContract, aReceipt, someRequirements } from '../../support/ecc-values.ts'
import { mutateJson } from '../engine/mutate-json.ts'
import { allVectorNames, json, text, vectorBytes } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { codec, mustBe, mustEqual, NOW_MS, refusedOr, trusting } from './support.ts'

/** UTF-8 or nothing: what a caller of a text parser has made sure of. */
function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes)
}

const cbor = codec({
  name: 'cbor',
  vectors: allVectorNames(),
  decode: (bytes) => decodeCbor(bytes),
  encode: (value) => encodeCbor(value),
  bytesMax: 8_192
})

const strictJson: FuzzTarget = {
  name: 'strict-json',
  bytesMax: 8_192,
  mutators: [mutateJson([])],
  seeds: () => [
    ...vectorBytes(['agent-card', 'edge-cloud'], 'text'),
    json([1, { a: [true, null, 'é', 1e21] }]),
    text('{"a":1,"\\u0061":2}')
  ],
  run(bytes) {
    const value = refusedOr(() => parseStrictJson(textOf(bytes)))
    if (value !== undefined) {
      const canonical = canonicalJson(value)
      mustBe(canonicalJson(parseStrictJson(canonical)) === canonical, 'canonical JSON read again is the same')
    }
    const strict = refusedOr(() => parseCanonicalJson(bytes))
    if (strict !== undefined) mustEqual(utf8(canonicalJson(strict)), bytes, 'canonical JSON has one text')
  }
}

const spaceNames: FuzzTarget = {
  name: 'space-names',
  bytesMax: 512,
  mutators: [],
  seeds: () => vectorBytes(['names'], 'text'),
  run(bytes) {
    const given = textOf(bytes)
    const name = refusedOr(() => parseSpaceName(given))
    if (name !== undefined) {
      mustBe(formatSpaceName(parseSpaceName(formatSpaceName(name))) === formatSpaceName(name), 'a name written is read as the same')
      topicPrefixes(name.topic)
    }
    const query = refusedOr(() => parseSpaceQuery(given))
    if (query !== undefined)
      mustBe(formatSpaceName(parseSpaceQuery(formatSpaceName(query))) === formatSpaceName(query), 'a query written is the same')
  }
}

const identities: FuzzTarget = {
  name: 'identities',
  bytesMax: 512,
  mutators: [],
  seeds: () => [
    ...vectorBytes(['eid', 'rotation']),
    ...vectorBytes(['eid'])
      .filter(({ length }) => length === 32)
      .map((bytes) => text(eidToDid(eid(bytes))))
  ],
  run(bytes) {
    const checked = refusedOr(() => checkedEid(nodeCrypto, bytes))
    if (checked !== undefined) mustEqual(eidFromDid(eidToDid(checked)), bytes, 'an EID survives its did:key')
    const did = refusedOr(() => eidFromDid(textOf(bytes)))
    if (did !== undefined) mustBe(eidToDid(did) === textOf(bytes), 'a did:key has one text')
    refusedOr(() => openRotation(nodeCrypto, bytes))
    refusedOr(() => openRotation(trusting, bytes))
  }
}

const agentCards: FuzzTarget = {
  name: 'agent-cards',
  bytesMax: 16_384,
  mutators: [
    mutateJson(['signatures', 'protected', 'signature', 'capabilities', 'extensions', 'skills', 'supportedInterfaces', 'securitySchemes'])
  ],
  seeds: () => vectorBytes(['agent-card'], 'text'),
  run(bytes) {
    const given = textOf(bytes)
    const agent = eid(new Uint8Array(32).fill(1))
    refusedOr(() => verifyCard(nodeCrypto, given, agent))
    refusedOr(() => verifyCard(trusting, given, agent))
    const card = refusedOr(() => parseStrictJson(given))
    if (card === undefined) return
    const canonical = refusedOr(() => canonicalCard(card))
    if (canonical !== undefined) mustBe(canonicalCard(JSON.parse(canonical)) === canonical, 'a canonical card is its own canonical form')
    const { capabilities } = (card ?? {}) as { capabilities?: { extensions?: unknown } }
    const extensions = capabilities?.extensions
    if (Array.isArray(extensions)) for (const one of extensions) refusedOr(() => readOfflineDeliveryExtension(one))
  }
}

const jws: FuzzTarget = {
  name: 'jws',
  bytesMax: 4_096,
  mutators: [mutateJson(['alg', 'kid', 'typ', 'crit', 'jku', 'EdDSA', 'none', 'JOSE'])],
  seeds: () => [
    json({ alg: 'EdDSA', kid: eidToDid(eid(vectorBytes(['eid'])[0] as Uint8Array)), typ: 'JOSE' }),
    text('eyJhbGciOiJFZERTQSJ9')
  ],
  run(bytes) {
    const signature = 'A'.repeat(86)
    const given = textOf(bytes)
    refusedOr(() => verifyJws(trusting, { protected: given, signature }, 'text'))
    refusedOr(() => verifyJws(trusting, { protected: Buffer.from(bytes).toString('base64url'), signature }, 'text'))
    refusedOr(() => verifyJws(nodeCrypto, { protected: Buffer.from(bytes).toString('base64url'), signature: given }, given))
    refusedOr(() => sealedExtensions(bytes))
    refusedOr(() => fromUtf8(bytes))
  }
}

/** `[contract, requirements, receipt, message]`; the receipt's digests are made to fit, so that what is compared after them is reached. */
const edgeCloud: FuzzTarget = {
  name: 'edge-cloud',
  bytesMax: 16_384,
  mutators: [mutateJson(['contractVersion', 'regions', 'DE-BE', 'notAfter', 'attestation', 'idempotencyKey', ...EDGE_CLOUD_CONTRACT_URIS])],
  seeds: () => {
    const metadata = { [EDGE_CLOUD_CONTRACT_URIS[0]]: someRequirements() }
    return [
      json([aContract(), someRequirements(), aReceipt(), { parts: [] }]),
      json([aContract(), someRequirements({ allowedRegions: ['DE'], deniedRegions: ['FR'], maxSideEffect: 'reversible' }), aReceipt(), {}]),
      json([aContract({ attestation: [] }), someRequirements({ idempotencyKey: 'k', maxLatencyMs: 4_000 }), aReceipt(), { metadata }]),
      json([{ version: '1.0', cause: 'CONTRACT_EXPIRED', field: '' }, null, null, { metadata, artifacts: [{ metadata }] }])
    ]
  },
  run(bytes) {
    const value = refusedOr(() => parseStrictJson(textOf(bytes)))
    const [contract, requirements, receipt, message] = Array.isArray(value) ? value : [value, value, value, value]
    refusedOr(() => readRejection(contract))
    refusedOr(() => contractMetadata(message))
    refusedOr(() => requirementsOf(message))
    refusedOr(() => rejectionOf(message))
    refusedOr(() => receiptIn({ message }))
    refusedOr(() => receiptIn({ artifacts: Array.isArray(message) ? message : [message] }))
    const [read, wanted, said] = [readContract(contract), readRequirements(requirements), readReceipt(receipt)]
    const contractDigest = read.ok ? digestOf(read.value) : ''
    const match = matchRequirements({ contract, contractDigest, requirements, nowMs: NOW_MS })
    mustBe((match.outcome === 'malformed') === !(read.ok && wanted.ok), 'what does not hold to its schema is malformed, and only that')
    if (!read.ok || !wanted.ok || !said.ok) return
    const result = { message }
    const fitting = refusedOr(() => ({
      ...said.value,
      contractDigest,
      requirementsDigest: digestOf(wanted.value),
      resultDigest: resultDigest(result)
    }))
    const verdict = verifyExecution({
      contract,
      requirements,
      receipt: fitting,
      result,
      messageId: said.value.messageId,
      verify: () => true
    })
    if (verdict.outcome === 'verified')
      mustBe(match.outcome === 'accepted' || match.outcome === 'refused', 'a verified receipt has a contract')
  }
}

export const targets: readonly FuzzTarget[] = [cbor, strictJson, spaceNames, identities, agentCards, jws, edgeCloud]
