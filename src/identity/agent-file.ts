import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { base64url } from 'multiformats/bases/base64'
import { z } from 'zod'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { type Eid, eid, eidFromDid, eidToDid } from '../../protocol/identity/eid.ts'
import { AGENT_NAME, handlerName } from '../api/methods.ts'
import { makePrivateDir, readSmallFile, removeFile, writePrivateFile } from '../platform/files.ts'
import type { Random } from '../platform/random.ts'
import { type AgentRecord, type AgentStorage, FORMER_MAX, type FormerIdentity, MAILBOX_KEYS_MAX } from './agent-record.ts'
import { invalidKeyFile, narrow, parseKeyFile, type Rights, readKeyFile, secretSchema, writeKeyFile } from './key-file.ts'
import { secretFromText, secretText } from './secret-text.ts'

export const AGENTS_DIR = 'agents'
const certificateSchema = z
  .string()
  .max(512)
  .transform((text, context) => {
    try {
      return base64url.baseDecode(text)
    } catch {
      context.addIssue({ code: 'custom', message: 'is not base64url' })
      return z.NEVER
    }
  })
const agentSchema = z.object({
  v: z.literal(1),
  kind: z.literal('agent'),
  name: z.string().regex(AGENT_NAME),
  did: z.string(),
  description: z.string().max(1_024),
  handler: handlerName,
  createdAtMs: z.int().min(0),
  seed: secretSchema,
  mailbox: z
    .array(z.object({ secret: secretSchema, madeAtMs: z.int().min(0) }))
    .min(1)
    .max(MAILBOX_KEYS_MAX),
  formerly: z
    .array(
      z.object({
        did: z.string().max(80),
        rotatedAtMs: z.int().min(0),
        seed: secretSchema.optional(),
        certificate: certificateSchema.optional()
      })
    )
    .max(FORMER_MAX)
    .optional()
})

type AgentFile = z.infer<typeof agentSchema>

/** `agents/NAME.json` and `agents/NAME.token`, files 0600 in a folder 0700. */
export class AgentFiles implements AgentStorage {
  readonly #dir: string
  readonly #crypto: CryptoProvider
  readonly #random: Random

  constructor(dataDir: string, components: { crypto: CryptoProvider; random: Random }) {
    this.#dir = join(dataDir, AGENTS_DIR)
    this.#crypto = components.crypto
    this.#random = components.random
  }

  load(): { record: AgentRecord; token: Uint8Array }[] {
    return this.names().map((name) => this.#read(name))
  }

  /** Reads one as a start would, and leaves its rights as they are. @throws RookeryError `KEY_FILE_INVALID` */
  check(name: string): void {
    this.#identity(name, 'leave')
  }

  /** Whose keys are here. @throws RookeryError `KEY_FILE_INVALID` */
  identities(): { name: string; did: string }[] {
    return this.names().map((name) => ({ name, did: eidToDid(eid(this.#crypto.ed25519.publicKey(this.#identity(name).seed))) }))
  }

  names(): string[] {
    makePrivateDir(this.#dir)
    return readdirSync(this.#dir)
      .filter((file) => file.endsWith('.json'))
      .sort()
      .map((file) => file.slice(0, -'.json'.length))
  }

  /** An agent out of the file of another data directory; nothing is written. @param from - for errors. @throws RookeryError `KEY_FILE_INVALID` */
  parse(text: Uint8Array, from: string): AgentRecord {
    return this.#recordOf(from, parseKeyFile(from, text, agentSchema))
  }

  /** Takes in what {@link parse} read, and makes it a token. @throws RookeryError `KEY_FILE_INVALID`; then it is not kept */
  adopt(record: AgentRecord): void {
    this.save(record)
    try {
      this.#read(record.name)
    } catch (error) {
      removeFile(join(this.#dir, `${record.name}.json`))
      throw error
    }
  }

  #read(name: string): { record: AgentRecord; token: Uint8Array } {
    return { record: this.#identity(name), token: this.#readToken(name) }
  }

  #identity(name: string, rights: Rights = 'narrow'): AgentRecord {
    const path = join(this.#dir, `${name}.json`)
    const file = readKeyFile(path, agentSchema, rights)
    if (file === undefined) throw invalidKeyFile(path, 'it went away while it was read')
    if (file.name !== name) throw invalidKeyFile(path, `it holds the agent "${file.name}"`)
    return this.#recordOf(path, file)
  }

  #recordOf(path: string, file: AgentFile): AgentRecord {
    if (eidToDid(eid(this.#crypto.ed25519.publicKey(file.seed))) !== file.did) {
      throw invalidKeyFile(path, 'its secret and its did do not belong together')
    }
    const { v: _v, kind: _kind, did: _did, formerly, ...record } = file
    return { ...record, formerly: this.#former(path, formerly ?? []) }
  }

  #former(path: string, rows: NonNullable<AgentFile['formerly']>): FormerIdentity[] {
    return rows.map(({ did, rotatedAtMs, seed, certificate }) => {
      const former = { eid: eidIn(path, did), rotatedAtMs }
      if (certificate === undefined) return former
      if (seed === undefined) return { ...former, certificate }
      if (eidToDid(eid(this.#crypto.ed25519.publicKey(seed))) !== did)
        throw invalidKeyFile(path, 'a former secret and its did do not belong together')
      return { ...former, retiring: { seed, certificate } }
    })
  }

  /** A token is no identity: a missing one is made anew, a damaged one refuses the start and says so. */
  #readToken(name: string): Uint8Array {
    const path = this.tokenFile(name)
    let bytes: Uint8Array | undefined
    try {
      bytes = readSmallFile(path, 1_024)
    } catch (cause) {
      throw invalidKeyFile(path, `it cannot be read (${(cause as NodeJS.ErrnoException).code ?? (cause as Error).message})`, cause)
    }
    if (bytes === undefined) {
      const token = this.#random.bytes(32)
      this.saveToken(name, token)
      return token
    }
    const token = secretFromText(new TextDecoder().decode(bytes).trim())
    if (token === undefined) throw invalidKeyFile(path, 'it holds no token; remove it to get a new one')
    narrow(path)
    return token
  }

  save(record: AgentRecord): void {
    makePrivateDir(this.#dir)
    writeKeyFile(join(this.#dir, `${record.name}.json`), {
      v: 1,
      kind: 'agent',
      name: record.name,
      did: eidToDid(eid(this.#crypto.ed25519.publicKey(record.seed))),
      description: record.description,
      handler: record.handler,
      createdAtMs: record.createdAtMs,
      seed: secretText(record.seed),
      mailbox: record.mailbox.map((key) => ({ secret: secretText(key.secret), madeAtMs: key.madeAtMs })),
      ...(record.formerly.length === 0 ? {} : { formerly: record.formerly.map(formerRow) })
    })
  }

  saveToken(name: string, token: Uint8Array): void {
    makePrivateDir(this.#dir)
    writePrivateFile(this.tokenFile(name), `${secretText(token)}\n`)
  }

  tokenFile(name: string): string {
    return join(this.#dir, `${name}.token`)
  }
}

function eidIn(path: string, did: string): Eid {
  try {
    return eidFromDid(did)
  } catch (cause) {
    throw invalidKeyFile(path, 'a former did of it is none', cause)
  }
}

function formerRow({ eid, rotatedAtMs, retiring, certificate }: FormerIdentity): object {
  const row = { did: eidToDid(eid), rotatedAtMs }
  if (retiring === undefined) return certificate === undefined ? row : { ...row, certificate: base64url.baseEncode(certificate) }
  return { ...row, seed: secretText(retiring.seed), certificate: base64url.baseEncode(retiring.certificate) }
}
