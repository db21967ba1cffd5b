import { RookeryError } from '../errors.ts'
import type { LocalAgent } from '../identity/agent.ts'
import type { Points } from '../points/points.ts'
import type { Locators, Spaces } from '../spaces/spaces.ts'

/** Keeps agents that live on this link alone out of everything that the whole network can ask (ESE-08): their locators, spaces and global points. */
export function keepOnLink(
  isLinkOnly: (agent: LocalAgent) => boolean,
  {
    locators,
    spaces,
    points
  }: { locators: Pick<Locators, 'publish' | 'withdraw'>; spaces: Pick<Spaces, 'announce' | 'join'>; points: Pick<Points, 'register'> }
): void {
  const check = (agent: LocalAgent) => {
    if (isLinkOnly(agent)) throw linkOnly(agent)
  }
  const publish = locators.publish.bind(locators)
  locators.publish = async (agent, options) => {
    check(agent)
    return await publish(agent, options)
  }
  const withdraw = locators.withdraw.bind(locators)
  locators.withdraw = async (agent, options) => {
    // a tombstone would be the first that the network hears of it
    if (!isLinkOnly(agent)) await withdraw(agent, options)
  }
  const announce = spaces.announce.bind(spaces)
  spaces.announce = async (input, options) => {
    check(input.curator)
    return await announce(input, options)
  }
  const join = spaces.join.bind(spaces)
  spaces.join = async (input, options) => {
    check(input.agent)
    return await join(input, options)
  }
  const register = points.register.bind(points)
  points.register = async (input, options) => {
    check(input.agent)
    return await register(input, options)
  }
}

function linkOnly({ name }: LocalAgent): RookeryError {
  return new RookeryError('AGENT_LINK_ONLY', `agent "${name}" is of the local link alone: nothing of it is published`, {
    kind: 'refused',
    field: 'localPoints.agents',
    value: name,
    remedy: 'take it out of localPoints.agents in config.yaml, or use another agent'
  })
}
