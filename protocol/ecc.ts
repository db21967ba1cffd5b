/**
 * The edge-cloud capability contract, complete: types, schemas, validator, matcher, digests, receipts (docs/edge-cloud-contract.md). Imports nothing
 * outside the language.
 */
export * from './canonical-json.ts'
export * from './ecc/digests.ts'
export * from './ecc/json-schema.ts'
export * from './ecc/match.ts'
export * from './ecc/metadata.ts'
export * from './ecc/objects.ts'
export * from './ecc/receipts.ts'
export * from './ecc/regions.ts'
export * from './ecc/schemas.ts'
export * from './ecc/tighten.ts'
export * from './ecc/timestamp.ts'
export * from './ecc/uris.ts'
export * from './ecc/vocabulary.ts'
