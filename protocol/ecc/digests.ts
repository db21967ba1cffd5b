import { canonicalJson } from '../canonical-json.ts'
import { compressBlock, SHA256_INITIAL } from '../discovery/sha256-block.ts'

/** Results nest as deep as a task may, and a little for what they stand in. */
const RESULT_DEPTH_MAX = 72

/** SHA-256 without anything outside the language; a node hands in its own, which is faster. */
export function sha256Plain(bytes: Uint8Array): Uint8Array {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64)
  padded.set(bytes)
  padded[bytes.length] = 0x80
  const view = new DataView(padded.buffer)
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n)
  const state = SHA256_INITIAL.slice()
  const w = new Int32Array(64)
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(at + i * 4)
    compressBlock(state, w)
  }
  const digest = new Uint8Array(32)
  const out = new DataView(digest.buffer)
  state.forEach((word, i) => void out.setInt32(i * 4, word))
  return digest
}

export type Sha256 = (bytes: Uint8Array) => Uint8Array

/**
 * `sha-256:` and 64 hex digits over the RFC 8785 text of a JSON value (G-68).
 * @throws ProtocolError `FIELD_INVALID` for what is no JSON value
 */
export function digestOf(value: unknown, sha256: Sha256 = sha256Plain): string {
  return digestOfBytes(new TextEncoder().encode(canonicalJson(value, RESULT_DEPTH_MAX)), sha256)
}

/**
 * The digest of a result: the parts of its artifacts in their order, each file by the digest of its own bytes (G-68). Metadata of an artifact, where the
 * receipt itself stands, is left out; so are members that A2A does not know, which relays may drop.
 * @param result - A2A Artifacts in ProtoJSON, or the answering Message
 */
export function resultDigest(result: { artifacts: readonly unknown[] } | { message: unknown }, sha256: Sha256 = sha256Plain): string {
  const items = 'message' in result ? [result.message] : result.artifacts
  const form = items.map((item) => {
    const { artifactId, parts } = isObject(item) ? item : {}
    const shown = Array.isArray(parts) ? parts.map((part) => partForm(part, sha256)) : []
    return 'message' in result ? { parts: shown } : { artifactId: typeof artifactId === 'string' ? artifactId : '', parts: shown }
  })
  return digestOf(form, sha256)
}

/** ProtoJSON leaves defaults out, so an empty name and none are one. */
function partForm(part: unknown, sha256: Sha256): object {
  if (!isObject(part)) return {}
  const { text, raw, url, filename, mediaType, metadata } = part
  return {
    ...(typeof text === 'string' ? { text } : {}),
    ...(typeof raw === 'string' ? { raw: digestOfBytes(bytesOf(raw), sha256) } : {}),
    ...(typeof url === 'string' ? { url } : {}),
    ...('data' in part && part.data !== undefined ? { data: part.data } : {}),
    ...(typeof filename === 'string' && filename !== '' ? { filename } : {}),
    ...(typeof mediaType === 'string' && mediaType !== '' ? { mediaType } : {}),
    ...(isObject(metadata) && Object.keys(metadata).length > 0 ? { metadata } : {})
  }
}

function digestOfBytes(bytes: Uint8Array, sha256: Sha256): string {
  return `sha-256:${Array.from(sha256(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const SIXES = new Map([...ALPHABET, '-', '_'].map((letter, at) => [letter.charCodeAt(0), at < 64 ? at : at - 2]))

/** Base64 in either alphabet, padded or not; what is no letter of it counts for nothing. */
function bytesOf(base64: string): Uint8Array {
  const bytes = new Uint8Array(Math.floor((base64.length * 3) / 4))
  let length = 0
  let bits = 0
  let held = 0
  for (let i = 0; i < base64.length; i++) {
    const six = SIXES.get(base64.charCodeAt(i))
    if (six === undefined) continue
    held = ((held << 6) | six) & 0xffff
    bits += 6
    if (bits < 8) continue
    bits -= 8
    bytes[length++] = (held >> bits) & 0xff
  }
  return bytes.subarray(0, length)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
