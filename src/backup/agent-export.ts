import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fromUtf8 } from '../../protocol/bytes.ts'
import { AGENT_NAME } from '../api/methods.ts'
import { nodeCrypto } from '../crypto/node-crypto.ts'
import { RookeryError } from '../errors.ts'
import { AGENTS_DIR, AgentFiles } from '../identity/agent-file.ts'
import type { AgentRecord } from '../identity/agent-record.ts'
import { AGENTS_MAX } from '../identity/agents.ts'
import { systemRandom } from '../platform/random.ts'
import { openStore } from '../store/open-store.ts'
import { version } from '../version.ts'
import { dataFolder } from './data-folder.ts'
import { checkNew, readSealed, smallText, writeSealed } from './sealed-file.ts'
import { invalid, type SealedHeader, unseal } from './sealed-stream.ts'

const AGENT_BYTES_MAX = 65_536

interface AgentText {
  name: string
  did: string
}

/** @throws RookeryError `AGENT_UNKNOWN`, `BACKUP_EXISTS`, `BACKUP_FAILED` */
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
  checkNew(file)
  const text = readFileSync(source)
  const { did } = agentText(text, source)
  await writeSealed(file, text, { kind: 'agent', by: version, madeAtMs: nowMs, of: did }, passphrase)
  return { name, did, file }
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
 * @throws RookeryError `AGENT_NAME_INVALID`, `DATA_DIR_IN_USE`, `AGENT_EXISTS`, `AGENTS_MAX`, `BACKUP_UNKNOWN`, `BACKUP_INVALID`, `PASSPHRASE_WRONG`
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
  const text = await readSealed(file, async ({ bytes }) => {
    const { header, text: sealed } = await unseal(bytes, { file, passphrase: input.passphrase })
    if (header.kind === 'node') throw invalid(file, 'it holds the identity of a node: read it with `rookery identity import`')
    if (header.kind !== 'agent') throw invalid(file, 'it is the backup of a node: read it with `rookery restore`')
    return await smallText(sealed, AGENT_BYTES_MAX, () => invalid(file, 'it is too large for an agent'))
  })
  const files = new AgentFiles(dataDir, { crypto: nodeCrypto, random: systemRandom })
  const { did } = agentText(text, file)
  const given = agentIn(files, text, file)
  const agent = { ...given, name: as ?? given.name }
  dataFolder(dataDir)
  // Whoever holds the store is the node: none starts meanwhile.
  const store = await openStore(dataDir, { software: version })
  try {
    const names = files.names()
    for (const name of names) {
      const here = agentText(readFileSync(join(dataDir, AGENTS_DIR, `${name}.json`)), name)
      if (name !== agent.name && here.did !== did) continue
      throw new RookeryError(
        'AGENT_EXISTS',
        here.did === did ? `this agent is here already, as "${name}"` : `an agent named "${name}" is here already`,
        {
          kind: 'conflict',
          field: here.did === did ? 'file' : '--as',
          value: name,
          remedy: here.did === did ? 'nothing to do' : 'give the imported one another name with --as'
        }
      )
    }
    if (names.length >= AGENTS_MAX) {
      throw new RookeryError('AGENTS_MAX', `a node hosts at most ${AGENTS_MAX} agents`, {
        kind: 'refused',
        field: 'agentsMax',
        value: AGENTS_MAX,
        remedy: 'import it at another node'
      })
    }
    files.adopt(agent)
    return { name: agent.name, did }
  } finally {
    await store.close()
  }
}

/** @throws RookeryError `BACKUP_INVALID` */
function agentIn(files: AgentFiles, text: Uint8Array, file: string): AgentRecord {
  try {
    return files.parse(text, file)
  } catch (cause) {
    throw invalid(file, 'it holds no agent that this version knows', cause)
  }
}
