import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { fromHex, toHex } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { RookeryError } from '../errors.ts'
import type { Random } from '../platform/random.ts'
import { checkKeyPair, parseKeyFile, type Rights, readKeyFile, secretSchema, writeKeyFile } from './key-file.ts'
import { type NodeKey, peerIdText } from './peer-id.ts'
import { secretText } from './secret-text.ts'

export const NODE_KEY_FILE = 'node.key'

const nodeKeySchema = z.object({
  v: z.literal(1),
  kind: z.literal('node'),
  seed: secretSchema,
  public: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .transform((text) => fromHex(text))
})

/**
 * The key of a data directory. A missing file is never replaced here: only {@link createNodeKey}, called by `init`, makes an identity (F100).
 * @throws RookeryError `NOT_INITIALISED`, `IDENTITY_MISSING`, `KEY_FILE_INVALID`
 */
export function loadNodeKey(dataDir: string, crypto: CryptoProvider, rights: Rights = 'narrow'): NodeKey {
  const path = join(dataDir, NODE_KEY_FILE)
  const file = readKeyFile(path, nodeKeySchema, rights)
  if (file === undefined) throw missing(dataDir)
  return nodeKeyOf(path, file, crypto)
}

/** Reads the text of a key file that is not in its place yet. @throws RookeryError `KEY_FILE_INVALID` */
export function parseNodeKey(path: string, bytes: Uint8Array, crypto: CryptoProvider): NodeKey {
  return nodeKeyOf(path, parseKeyFile(path, bytes, nodeKeySchema), crypto)
}

function nodeKeyOf(path: string, file: z.infer<typeof nodeKeySchema>, crypto: CryptoProvider): NodeKey {
  const publicKey = crypto.ed25519.publicKey(file.seed)
  checkKeyPair(path, file.public, publicKey)
  return { seed: file.seed, peer: peerIdText(publicKey) }
}

export function createNodeKey(dataDir: string, components: { crypto: CryptoProvider; random: Random }): NodeKey {
  const seed = components.random.bytes(32)
  const publicKey = components.crypto.ed25519.publicKey(seed)
  writeKeyFile(join(dataDir, NODE_KEY_FILE), { v: 1, kind: 'node', seed: secretText(seed), public: toHex(publicKey) })
  return { seed, peer: peerIdText(publicKey) }
}

export function hasNodeKey(dataDir: string): boolean {
  return existsSync(join(dataDir, NODE_KEY_FILE))
}

function missing(dataDir: string): RookeryError {
  const holds = existsSync(dataDir) ? readdirSync(dataDir) : []
  if (holds.includes('store') || holds.includes('agents')) {
    return new RookeryError('IDENTITY_MISSING', `${dataDir} was used by a node before, but its key file ${NODE_KEY_FILE} is gone`, {
      kind: 'config',
      field: join(dataDir, NODE_KEY_FILE),
      remedy: 'restore the file from a backup; `rookery init` makes a new node identity (agents keep theirs)'
    })
  }
  return new RookeryError('NOT_INITIALISED', `there is no node in ${dataDir}`, {
    kind: 'config',
    field: 'dataDir',
    value: dataDir,
    remedy: `make one with \`rookery init --data ${dataDir}\`, or name the right folder with --data or ROOKERY_HOME`
  })
}
