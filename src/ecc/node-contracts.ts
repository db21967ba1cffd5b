import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { isAtMost, type SideEffects } from '../../protocol/ecc/vocabulary.ts'
import type { EidHex } from '../../protocol/identity/eid.ts'
import type { Config } from '../config/schema.ts'
import { RookeryError } from '../errors.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Clock } from '../platform/clock.ts'
import { ExecutionContracts } from './execution-contracts.ts'

/** The contracts that the settings give to a node's agents, by name. */
export function nodeContracts(components: {
  config: Pick<Config, 'edgeCloud'>
  agents: { list(): readonly LocalAgent[] }
  crypto: CryptoProvider
  clock: Clock
}): ExecutionContracts {
  const { config, agents, crypto, clock } = components
  const agentOf = (home: EidHex) => agents.list().find((agent) => homeOf(agent) === home)
  return new ExecutionContracts({
    contractOf: (home) => {
      const name = agentOf(home)?.name
      const { contracts } = config.edgeCloud
      return name !== undefined && Object.hasOwn(contracts, name) ? contracts[name] : undefined
    },
    signerOf: (home) => agentOf(home)?.signer,
    crypto,
    clock
  })
}

/**
 * A contract must not promise milder work than the handler declares: a caller that permits the one would get the other.
 * @throws RookeryError `CONTRACT_UNDERSTATES`
 */
export function checkSideEffects({ edgeCloud }: Pick<Config, 'edgeCloud'>, agent: LocalAgent, declared: SideEffects): void {
  const contract = Object.hasOwn(edgeCloud.contracts, agent.name) ? edgeCloud.contracts[agent.name] : undefined
  if (contract === undefined || isAtMost(declared, contract.sideEffects.class)) return
  const field = `edgeCloud.contracts.${agent.name}.sideEffects.class`
  throw new RookeryError(
    'CONTRACT_UNDERSTATES',
    `${field} is ${contract.sideEffects.class}, and the handler of ${agent.name} declares ${declared}`,
    {
      kind: 'config',
      field,
      value: contract.sideEffects.class,
      remedy: `set it to ${declared}, or let the handler declare milder side effects; what it does not declare counts as consequential`
    }
  )
}
