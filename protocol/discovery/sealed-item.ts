import { concat, isZero, Reader, Writer } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import type { WorkSeed } from './work.ts'

/** Every item of every answer has this size, so that hops learn nothing from it: enc, ciphertext, tag. */
export const ITEM_BYTES = 3_072
const ENC_BYTES = 32
const TAG_BYTES = 16
const PLAINTEXT_BYTES = ITEM_BYTES - ENC_BYTES - TAG_BYTES
/** What an item can say. */
export const ITEM_CONTENT_BYTES_MAX = PLAINTEXT_BYTES - 2

const infoOf = (seed: WorkSeed) => concat([context('discovery-res'), seed])
const NO_AAD = new Uint8Array(0)

/**
 * Seals content to the key of one request: `enc ‖ HPKE(u16 length ‖ content ‖ zeros)`, 3,072 bytes.
 * @param ephemeralSecret - 32 random bytes, fresh for every call
 * @throws ProtocolError `TOO_LARGE`; `KEY_INVALID` for a request's key that no secret can match
 */
export async function sealItem(
  crypto: CryptoProvider,
  { seed, recipient, ephemeralSecret, content }: { seed: WorkSeed; recipient: Uint8Array; ephemeralSecret: Uint8Array; content: Uint8Array }
): Promise<Uint8Array> {
  if (content.length > ITEM_CONTENT_BYTES_MAX) {
    throw new ProtocolError('TOO_LARGE', `${content.length} bytes do not fit an item of ${ITEM_CONTENT_BYTES_MAX}`, { field: 'item' })
  }
  if (crypto.x25519.sharedSecret(ephemeralSecret, recipient) === undefined) {
    throw new ProtocolError('KEY_INVALID', 'the key of the request is a point of low order', { field: 'ephemeral' })
  }
  const plaintext = new Writer(PLAINTEXT_BYTES)
    .u16(content.length)
    .bytes(content)
    .zeros(ITEM_CONTENT_BYTES_MAX - content.length)
    .finish()
  const { enc, ct } = await crypto.hpke.seal({ recipient, ephemeralSecret, info: infoOf(seed), aad: NO_AAD, plaintext })
  return concat([enc, ct])
}

/**
 * @param secret - the X25519 secret of the request's key
 * @returns what was sealed
 * @throws ProtocolError `LENGTH`, `AEAD_OPEN`, `TRUNCATED`, `FRAME_ZEROS`
 */
export async function openItem(
  crypto: CryptoProvider,
  { seed, secret, item }: { seed: WorkSeed; secret: Uint8Array; item: Uint8Array }
): Promise<Uint8Array> {
  if (item.length !== ITEM_BYTES) throw new ProtocolError('LENGTH', `an item is ${ITEM_BYTES} bytes, not ${item.length}`, { field: 'item' })
  const enc = item.subarray(0, ENC_BYTES)
  const plaintext = await crypto.hpke.open({ secret, enc, info: infoOf(seed), aad: NO_AAD, ct: item.subarray(ENC_BYTES) })
  if (plaintext === undefined) throw new ProtocolError('AEAD_OPEN', 'the item does not open', { field: 'item' })
  const reader = new Reader(plaintext)
  const content = reader.bytes(reader.u16('length'), 'item')
  if (!isZero(reader.rest())) throw new ProtocolError('FRAME_ZEROS', 'the rest of the item is not zero', { field: 'item' })
  return content
}
