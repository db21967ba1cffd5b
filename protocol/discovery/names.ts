import { concat, utf8 } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { type Brand, type Eid, eidFromDid, eidToDid } from '../identity/eid.ts'

export const LABELS_MAX = 8
export const DOTTED_BYTES_MAX = 128
export const VERSION_MAX = 0xffffffff
const LABEL = /^[a-z0-9-]{1,32}$/
const VERSION = /^[1-9][0-9]{0,9}$/
/** `ns/topic@version#did:key:…` is never longer. */
export const NAME_CHARS_MAX = 2 * DOTTED_BYTES_MAX + 96

/** SHA-256 of a space's name, 32 bytes; where its announcement lies. */
export type DsId = Brand<Uint8Array, 'DsId'>
/** SHA-256 of a namespace and an ancestor topic, 32 bytes; where the announcements below it are listed. */
export type PrefixId = Brand<Uint8Array, 'PrefixId'>

/** What was read from `ns/topic` or `ns/topic@version`, each optionally followed by `#did:key:…`. */
interface SpaceWords {
  readonly ns: string
  readonly topic: string
  /** the only curator that is followed */
  readonly pin?: Eid
}
/** One discovery space (protocol/README.md §2). Made by {@link spaceName} or {@link parseSpaceName} only, so its words obey the grammar. */
export type SpaceName = Brand<SpaceWords & { readonly version: number }, 'SpaceName'>
/** A topic with all that lies below it, in any version; made by {@link topicName} or {@link parseSpaceQuery}. */
export type TopicName = Brand<SpaceWords & { readonly version?: never }, 'TopicName'>

/** @throws ProtocolError `NAME_INVALID` that names the offending label */
export function spaceName(input: { ns: string; topic: string; version: number; pin?: Eid }): SpaceName {
  checkDotted('ns', input.ns)
  checkDotted('topic', input.topic)
  if (!Number.isInteger(input.version) || input.version < 1 || input.version > VERSION_MAX) {
    throw refused('version', `version ${input.version} is not an integer from 1 to ${VERSION_MAX}`)
  }
  const { ns, topic, version, pin } = input
  return (pin === undefined ? { ns, topic, version } : { ns, topic, version, pin }) as SpaceName
}

/** @throws ProtocolError `NAME_INVALID` that names the offending label */
export function topicName(input: { ns: string; topic: string; pin?: Eid }): TopicName {
  checkDotted('ns', input.ns)
  checkDotted('topic', input.topic)
  const { ns, topic, pin } = input
  return (pin === undefined ? { ns, topic } : { ns, topic, pin }) as TopicName
}

/**
 * Reads `ns/topic@version[#did:key:…]`.
 * @throws ProtocolError `NAME_INVALID` with the offending label, `DID_INVALID` for the pin
 */
export function parseSpaceName(text: string): SpaceName {
  const query = parseSpaceQuery(text)
  if (query.version === undefined)
    throw refused('version', `"${shown(text)}" has no version: write ns/topic@version, such as ${query.ns}/${query.topic}@1`)
  return query
}

/**
 * Reads a space as {@link parseSpaceName} does, or `ns/topic` without a version: that topic with all its children.
 * @throws ProtocolError `NAME_INVALID` with the offending label, `DID_INVALID` for the pin
 */
export function parseSpaceQuery(text: string): SpaceName | TopicName {
  if (text.length > NAME_CHARS_MAX) throw refused('name', `a name has at most ${NAME_CHARS_MAX} characters, not ${text.length}`)
  const hash = text.indexOf('#')
  const pin = hash < 0 ? {} : { pin: eidFromDid(text.slice(hash + 1)) }
  const body = hash < 0 ? text : text.slice(0, hash)
  const slash = body.indexOf('/')
  if (slash < 0) throw refused('name', `"${shown(text)}" has no "/" between namespace and topic`)
  const ns = body.slice(0, slash)
  const at = body.indexOf('@', slash)
  if (at < 0) return topicName({ ns, topic: body.slice(slash + 1), ...pin })
  const version = body.slice(at + 1)
  if (!VERSION.test(version))
    throw refused('version', `version "${shown(version)}" is not a decimal number from 1 to ${VERSION_MAX} without leading zeros`)
  return spaceName({ ns, topic: body.slice(slash + 1, at), version: Number(version), ...pin })
}

/** The one text form of a name; {@link parseSpaceQuery} gives the same name back. */
export function formatSpaceName(name: SpaceName | TopicName): string {
  const version = name.version === undefined ? '' : `@${name.version}`
  const pin = name.pin === undefined ? '' : `#${eidToDid(name.pin)}`
  return `${name.ns}/${name.topic}${version}${pin}`
}

/** `DS_ID = H("ds:" ‖ ns ‖ ":" ‖ topic ‖ ":" ‖ decimal(version))`. The pin is no part of it. */
export function dsId(crypto: CryptoProvider, name: { ns: string; topic: string; version: number }): DsId {
  return crypto.sha256(utf8(`ds:${name.ns}:${name.topic}:${name.version}`)) as DsId
}

/** `PREFIX_ID = H("ds-prefix:" ‖ ns ‖ ":" ‖ prefix)`; the empty prefix stands for the whole namespace. */
export function prefixId(crypto: CryptoProvider, ns: string, prefix: string): PrefixId {
  return crypto.sha256(utf8(`ds-prefix:${ns}:${prefix}`)) as PrefixId
}

/** The empty prefix, then every ancestor of the topic by whole labels, the topic itself last: at most nine. */
export function topicPrefixes(topic: string): string[] {
  const labels = topic.split('.')
  return ['', ...labels.map((_, i) => labels.slice(0, i + 1).join('.'))]
}

/** The keys under which an announcement of this topic is listed, in the order of {@link topicPrefixes}. */
export function prefixIds(crypto: CryptoProvider, name: { ns: string; topic: string }): PrefixId[] {
  return topicPrefixes(name.topic).map((prefix) => prefixId(crypto, name.ns, prefix))
}

/** True when `topic` is `parent` or lies below it by whole labels; the empty parent holds every topic. */
export function isTopicWithin(topic: string, parent: string): boolean {
  return parent === '' || topic === parent || topic.startsWith(`${parent}.`)
}

export const SHARDS_MAX = 256

/** Which of `shards` parts holds this member: the first byte of H(EID) modulo `shards` (protocol/README.md §4). */
export function shardIndex(crypto: CryptoProvider, eid: Eid, shards: number): number {
  if (!Number.isInteger(shards) || shards < 1 || shards > SHARDS_MAX) throw new RangeError(`${shards} is not a number of shards`)
  return (crypto.sha256(eid)[0] as number) % shards
}

/** The key of one part of a space's members: DS_ID itself when there is one part, else `H(DS_ID ‖ u8(index))`. */
export function shardKey(crypto: CryptoProvider, id: DsId, shards: number, index: number): Uint8Array {
  if (!Number.isInteger(index) || index < 0 || index >= shards || shards > SHARDS_MAX)
    throw new RangeError(`no shard ${index} of ${shards}`)
  return shards === 1 ? id : crypto.sha256(id, Uint8Array.of(index))
}

/** The keys of all parts, for a reader. */
export function shardKeys(crypto: CryptoProvider, id: DsId, shards: number): Uint8Array[] {
  return Array.from({ length: shards }, (_, index) => shardKey(crypto, id, shards, index))
}

/** The key under which this member's join is listed. */
export function memberKey(crypto: CryptoProvider, id: DsId, eid: Eid, shards: number): Uint8Array {
  return shardKey(crypto, id, shards, shardIndex(crypto, eid, shards))
}

/** SHA-256 of an EID and a tag, 32 bytes: a global point of that agent (protocol/README.md §1). */
export type GpCoordinate = Brand<Uint8Array, 'GpCoordinate'>
/** 1 to 64 printable ASCII characters. */
export const TAG = /^[\x20-\x7e]{1,64}$/

/**
 * `GP_Coordinate = H(EID ‖ utf8(tag))`.
 * @throws ProtocolError `FIELD_INVALID` for a tag that is not 1 to 64 printable ASCII characters
 */
export function gpCoordinate(crypto: CryptoProvider, eid: Eid, tag: string): GpCoordinate {
  if (!TAG.test(tag))
    throw new ProtocolError('FIELD_INVALID', `tag "${shown(tag)}" is not 1 to 64 printable ASCII characters`, { field: 'tag' })
  return crypto.sha256(concat([eid, utf8(tag)])) as GpCoordinate
}

function checkDotted(field: 'ns' | 'topic', text: string): void {
  const noun = field === 'ns' ? 'namespace' : 'topic'
  if (text.length > DOTTED_BYTES_MAX) throw refused(field, `${noun} "${shown(text)}" is longer than ${DOTTED_BYTES_MAX} bytes`)
  const labels = text.split('.')
  if (labels.length > LABELS_MAX)
    throw refused(field, `${noun} "${shown(text)}" has ${labels.length} labels, at most ${LABELS_MAX} are allowed`)
  for (const [i, label] of labels.entries()) {
    if (!LABEL.test(label)) {
      throw refused(field, `label ${i + 1} of the ${noun}, "${shown(label)}", is not 1 to 32 of the characters a-z, 0-9 and "-"`)
    }
  }
}

function shown(text: string): string {
  return text.length > 48 ? `${text.slice(0, 48)}…` : text
}

function refused(field: string, message: string): ProtocolError {
  return new ProtocolError('NAME_INVALID', message, { field })
}
