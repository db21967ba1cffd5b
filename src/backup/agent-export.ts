import { createReadStream, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fromUtf8, utf8 } from '../../protocol/bytes.ts'
import { AGENT_NAME } from '../api/methods.ts'
import { nodeCrypto } from '../crypto/node-crypto.ts'
import { RookeryError } from '../errors.ts'
import { AGENTS_DIR, AgentFiles } from '../identity/agent-file.ts'
import { writePrivateFile } from '../platform/files.ts'
import { systemRandom } from '../platform/random.ts'
import { openStore } from '../store/open-store.ts'
import { version } from '../version.ts'
import { invalid, type SealedHeader, seal, unseal } from './sealed-stream.ts'

const AGENT_BYTES_MAX = 65_536

interface AgentText {
  name: string
  did: string
}

/** @throws RookeryError `AGENT_UNKNOWN`, `BACKUP_EXISTS` */
export async function exportAgent(input: {
  dataDir: string
  name: string
  file: string
  passphrase: string | undefined
  nowMs: number
}): Promise<AgentText & { file: string }> {
  const { dataDir, name, file, passphrase, nowMs } = input
  const source = join(dataDir, AGENTS_DIR, `${name}.json`)
  if (!AGENT_NAME.test(name) || !existsSync(source)) {
    throw new RookeryError('AGENT_UNKNOWN', `no agent "${name}" in ${dataDir}`, {
      kind: 'notFound',
      field: 'name',
      value: name,
      remedy: 'list them with `rookery agent list`'
    })
  }
  if (existsSync(file)) {
    throw new RookeryError('BACKUP_EXISTS', `${file} is there already`, {
      kind: 'conflict',
      field: 'file',
      value: file,
      remedy: 'name another file'
    })
  }
  const text = readFileSync(source)
  const { did } = agentText(text, source)
  const pieces: Uint8Array[] = []
  for await (const piece of seal(of(text), { kind: 'agent', by: version, madeAtMs: nowMs, of: did }, passphrase)) pieces.push(piece)
  writePrivateFile(file, Buffer.concat(pieces))
  return { name, did, file }
}

async function* of(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

function agentText(bytes: Uint8Array, file: string): AgentText & { [key: string]: unknown } {
  try {
    const value = JSON.parse(fromUtf8(bytes)) as Partial<AgentText>
    if (typeof value.name === 'string' && AGENT_NAME.test(value.name) && typeof value.did === 'string')
      return value as AgentText & { [key: string]: unknown }
  } catch {
    // told below, without the text: it may hold a secret
  }
  throw invalid(file, 'it holds no agent')
}

/**
 * Adds an exported agent to a data directory whose node does not run.
 * @param input.as - another name for it here
 * @throws RookeryError `AGENT_NAME_INVALID`, `DATA_DIR_IN_USE`, `AGENT_EXISTS`, `BACKUP_INVALID`, `PASSPHRASE_WRONG`
 */
export async function importAgent(input: {
  dataDir: string
  file: string
  as: string | undefined
  passphrase: (header: SealedHeader) => Promise<string | undefined>
}): Promise<AgentText> {
  const { dataDir, file, as } = input
  if (as !== undefined && !AGENT_NAME.test(as)) {
    throw new RookeryError('AGENT_NAME_INVALID', 'this is no name of an agent: 1 to 32 characters of a-z, 0-9 and "-", the first no "-"', {
      kind: 'usage',
      field: '--as',
      value: as.slice(0, 100),
      remedy: 'give another name, for example "weather-bot"'
    })
  }
  if (!existsSync(file)) {
    throw new RookeryError('BACKUP_UNKNOWN', `there is no file ${file}`, {
      kind: 'notFound',
      field: 'file',
      value: file,
      remedy: 'check the path'
    })
  }
  const { header, text } = await unseal(createReadStream(file), { file, passphrase: input.passphrase })
  if (header.kind === 'node') throw invalid(file, 'it holds the identity of a node: read it with `rookery identity import`')
  if (header.kind !== 'agent') throw invalid(file, 'it is the backup of a node: read it with `rookery restore`')
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of text) {
    bytes += piece.length
    if (bytes > AGENT_BYTES_MAX) throw invalid(file, 'it is too large for an agent')
    pieces.push(piece)
  }
  const given = agentText(Buffer.concat(pieces), file)
  const agent = { ...given, name: as ?? given.name }
  // Whoever holds the store is the node: none starts meanwhile.
  const store = await openStore(dataDir, { software: version })
  try {
    const files = new AgentFiles(dataDir, { crypto: nodeCrypto, random: systemRandom })
    for (const name of files.names()) {
      const { did } = agentText(readFileSync(join(dataDir, AGENTS_DIR, `${name}.json`)), name)
      if (name !== agent.name && did !== agent.did) continue
      throw new RookeryError(
        'AGENT_EXISTS',
        did === agent.did ? `this agent is here already, as "${name}"` : `an agent named "${name}" is here already`,
        {
          kind: 'conflict',
          field: did === agent.did ? 'file' : '--as',
          value: name,
          remedy: did === agent.did ? 'nothing to do' : 'give the imported one another name with --as'
        }
      )
    }
    files.adopt(agent.name, utf8(`${JSON.stringify(agent, null, 2)}\n`))
    return { name: agent.name, did: agent.did }
  } finally {
    await store.close()
  }
}
