import { createCipheriv, createDecipheriv, randomBytes, scrypt } from 'node:crypto'
import { RookeryError } from '../errors.ts'

/**
 * A stream under a passphrase. Head: magic 8 B, length of the header u16, header (JSON). Then chunks: length u32, ciphertext and tag of up to 64 KiB of text,
 * AES-256-GCM with the nonce prefix 7 B ‖ number u32 ‖ 1 for the last chunk, else 0; the head is the first chunk's additional data. So chunks cannot be left out,
 * doubled, put elsewhere or cut off at the end. The key is scrypt's, with the parameters of the header (N 2^17, r 8, p 1 where it has none, and in what is written now); without a passphrase it is no secret, and the tags only find damage.
 */
const MAGIC = 'ROOKBK01'
const CHUNK_BYTES = 65_536
const TAG_BYTES = 16
const HEADER_BYTES_MAX = 4_096
const SCRYPT: Scrypt = { N: 131_072, r: 8, p: 1 }
/** What a file may ask of who opens it: it is read before anything in it is known to be true. */
const SCRYPT_BOUNDS = { N: { min: 16_384, max: 1_048_576 }, r: { min: 1, max: 32 }, p: { min: 1, max: 8 } } as const
const SCRYPT_BYTES_MAX = 1_073_741_824

interface Scrypt {
  /** a power of 2 */
  N: number
  r: number
  p: number
}
const CHUNKS_MAX = 2 ** 32 - 1

/** In clear at the head of the file: what it is, not what is in it. */
export interface SealedHeader {
  kind: 'backup' | 'agent' | 'node'
  /** software that wrote it */
  by: string
  madeAtMs: number
  /** PeerId of the node, or DID of the agent */
  of: string
  sealed: 'passphrase' | 'open'
}

type StoredHeader = SealedHeader & { salt: string; prefix: string; scrypt?: Scrypt }

/** What is sealed, in pieces of any size. @param passphrase - undefined: in clear but for the check */
export async function* seal(
  text: AsyncIterable<Uint8Array>,
  given: Omit<SealedHeader, 'sealed'>,
  passphrase: string | undefined
): AsyncGenerator<Uint8Array> {
  const salt = randomBytes(16)
  const prefix = randomBytes(7)
  const stored: StoredHeader = {
    ...given,
    sealed: passphrase === undefined ? 'open' : 'passphrase',
    salt: salt.toString('base64url'),
    prefix: prefix.toString('base64url'),
    ...(passphrase === undefined ? {} : { scrypt: SCRYPT })
  }
  const header = Buffer.from(JSON.stringify(stored))
  const length = Buffer.alloc(2)
  length.writeUInt16BE(header.length)
  const head = Buffer.concat([Buffer.from(MAGIC), length, header])
  yield head
  const key = await keyOf(passphrase, salt, SCRYPT)
  let number = 0
  const chunk = (bytes: Uint8Array, last: boolean) => {
    const cipher = createCipheriv('aes-256-gcm', key, nonceOf(prefix, number, last))
    if (number === 0) cipher.setAAD(head)
    const sealed = Buffer.concat([cipher.update(bytes), cipher.final(), cipher.getAuthTag()])
    const size = Buffer.alloc(4)
    size.writeUInt32BE(sealed.length)
    number++
    if (number > CHUNKS_MAX) throw new RangeError('too much for one file')
    return Buffer.concat([size, sealed])
  }
  let waiting: Buffer = Buffer.alloc(0)
  for await (const piece of text) {
    waiting = Buffer.concat([waiting, piece])
    while (waiting.length > CHUNK_BYTES) {
      yield chunk(waiting.subarray(0, CHUNK_BYTES), false)
      waiting = waiting.subarray(CHUNK_BYTES)
    }
  }
  yield chunk(waiting, true)
}

/** Reads exactly as much as it is asked for. */
class Reader {
  readonly #source: AsyncIterator<Uint8Array>
  #held: Buffer = Buffer.alloc(0)

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** Fewer only at the end. */
  async take(bytes: number): Promise<Buffer> {
    while (this.#held.length < bytes) {
      const next = await this.#source.next()
      if (next.done === true) break
      this.#held = Buffer.concat([this.#held, next.value])
    }
    const taken = this.#held.subarray(0, bytes)
    this.#held = this.#held.subarray(taken.length)
    return taken
  }
}

/**
 * Opens what {@link seal} made. Nothing of a chunk is given out before its tag was checked; the end is checked too.
 * @param file - its name, for errors
 * @throws RookeryError `BACKUP_INVALID`; `PASSPHRASE_WRONG`, also for a damaged first chunk; `PASSPHRASE_MISSING`
 */
export async function unseal(
  source: AsyncIterable<Uint8Array>,
  { file, passphrase }: { file: string; passphrase: (header: SealedHeader) => Promise<string | undefined> }
): Promise<{ header: SealedHeader; text: AsyncGenerator<Uint8Array> }> {
  const reader = new Reader(source)
  const start = await reader.take(MAGIC.length + 2)
  if (start.length < MAGIC.length + 2 || start.subarray(0, MAGIC.length).toString('latin1') !== MAGIC)
    throw invalid(file, 'it was not written by `rookery backup` or `rookery identity export`')
  const length = start.readUInt16BE(MAGIC.length)
  const bytes = await reader.take(Math.min(length, HEADER_BYTES_MAX))
  const stored = length > HEADER_BYTES_MAX || bytes.length < length ? undefined : headerOf(bytes)
  if (stored === undefined) throw invalid(file, 'its header is damaged')
  const { salt, prefix, scrypt = SCRYPT, ...header } = stored
  if (!isBounded(scrypt)) throw invalid(file, 'it asks for a key that costs more, or less, than is allowed')
  const given = header.sealed === 'open' ? undefined : await passphrase(header)
  if (header.sealed === 'passphrase' && given === undefined) {
    throw new RookeryError('PASSPHRASE_MISSING', `${file} is sealed with a passphrase`, {
      kind: 'usage',
      field: '--passphrase-file',
      remedy: 'name a file that holds it with --passphrase-file, set ROOKERY_PASSPHRASE, or call this on a terminal'
    })
  }
  const key = await keyOf(given, Buffer.from(salt, 'base64url'), scrypt)
  const head = Buffer.concat([start, bytes])
  return { header, text: chunks(reader, { key, prefix: Buffer.from(prefix, 'base64url'), head, file, sealed: header.sealed }) }
}

async function* chunks(
  reader: Reader,
  { key, prefix, head, file, sealed }: { key: Buffer; prefix: Buffer; head: Buffer; file: string; sealed: SealedHeader['sealed'] }
): AsyncGenerator<Uint8Array> {
  let size = await reader.take(4)
  for (let number = 0; ; number++) {
    const length = size.length === 4 ? size.readUInt32BE() : 0
    if (length < TAG_BYTES || length > CHUNK_BYTES + TAG_BYTES)
      throw invalid(file, size.length < 4 ? 'its end is missing' : 'it is damaged')
    const bytes = await reader.take(length)
    if (bytes.length < length) throw invalid(file, 'its end is missing')
    size = await reader.take(4)
    const last = size.length === 0
    const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(prefix, number, last))
    if (number === 0) decipher.setAAD(head)
    decipher.setAuthTag(bytes.subarray(length - TAG_BYTES))
    let text: Buffer
    try {
      text = Buffer.concat([decipher.update(bytes.subarray(0, length - TAG_BYTES)), decipher.final()])
    } catch (cause) {
      if (number > 0 || sealed === 'open') throw invalid(file, last ? 'its end is missing or damaged' : 'it is damaged', cause)
      throw new RookeryError('PASSPHRASE_WRONG', `${file} does not open with this passphrase, or its beginning is damaged`, {
        kind: 'refused',
        field: 'passphrase',
        remedy: 'check the passphrase; without it nobody can open the file',
        cause
      })
    }
    yield text
    if (last) return
  }
}

function headerOf(bytes: Buffer): StoredHeader | undefined {
  try {
    const value = JSON.parse(bytes.toString('utf8')) as Partial<StoredHeader>
    const texts = [value.by, value.of, value.salt, value.prefix].every((one) => typeof one === 'string')
    const fits = ['backup', 'agent', 'node'].includes(value.kind as string) && (value.sealed === 'open' || value.sealed === 'passphrase')
    return texts && fits && Number.isSafeInteger(value.madeAtMs) ? (value as StoredHeader) : undefined
  } catch {
    return undefined
  }
}

function nonceOf(prefix: Uint8Array, number: number, last: boolean): Buffer {
  const nonce = Buffer.alloc(12)
  nonce.set(prefix.subarray(0, 7))
  nonce.writeUInt32BE(number, 7)
  nonce[11] = last ? 1 : 0
  return nonce
}

function isBounded(given: Partial<Scrypt> | null): boolean {
  const { N = 0, r = 0, p = 0 } = given ?? {}
  const within = (value: unknown, { min, max }: { min: number; max: number }) =>
    Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max
  const { N: forN, r: forR, p: forP } = SCRYPT_BOUNDS
  return within(N, forN) && (N & (N - 1)) === 0 && within(r, forR) && within(p, forP) && 128 * N * r < SCRYPT_BYTES_MAX
}

function keyOf(passphrase: string | undefined, salt: Uint8Array, { N, r, p }: Scrypt): Promise<Buffer> {
  if (passphrase === undefined) return Promise.resolve(Buffer.alloc(32))
  return new Promise((resolve, reject) =>
    scrypt(passphrase.normalize('NFC'), salt, 32, { N, r, p, maxmem: SCRYPT_BYTES_MAX }, (error, key) =>
      error === null ? resolve(key) : reject(error)
    )
  )
}

export function invalid(file: string, what: string, cause?: unknown): RookeryError {
  return new RookeryError('BACKUP_INVALID', `${file} cannot be used: ${what}`, {
    kind: 'storage',
    field: 'file',
    value: file,
    remedy: 'take another copy of it',
    ...(cause === undefined ? {} : { cause })
  })
}
