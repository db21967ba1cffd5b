import type { ExecutionRequirements } from '../../protocol/ecc/objects.ts'
import { type ToolAnnotations, tightenByAnnotations } from '../../protocol/ecc/tighten.ts'
import { eidFromDid } from '../../protocol/identity/eid.ts'
import { DeliveryRefused } from '../a2a/delivery-refused.ts'
import { createKeepAsleep } from '../a2a/keep-asleep.ts'
import type { LocalA2a } from '../a2a/local-a2a.ts'
import { outcomeOfRefusal } from '../a2a/send-message.ts'
import { RookeryError } from '../errors.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { NodeParts } from '../node-parts.ts'
import type { RookeryNode } from '../rookery-node.ts'
import { checkMessage } from '../tasks/message.ts'
import type { Json, JsonObject } from '../tasks/todo.ts'
import type { CreateFor, Hints, McpActions } from './mcp-tools.ts'
import { workView } from './work-views.ts'

/** What MCP sessions do through the node: the same calls that A2A, the control API and the library make. */
export function nodeMcpActions(parts: NodeParts, local: LocalA2a, node: Pick<RookeryNode, 'send' | 'spaces'>): McpActions {
  const { access, agents, todos, outgoing, queue, random, tracer } = parts
  const keep = createKeepAsleep({ outgoing, queue, tracer })
  return {
    async createFor(principal, request) {
      const to = localAgent(parts, request.agent)
      const message = messageOf(request, () => Buffer.from(random.bytes(16)).toString('hex'))
      checkMessage(message)
      const { queue: named, priority } = request
      access.authorize(principal, { agent: homeOf(to), verb: 'send', queue: named })
      const params: JsonObject = { message }
      let admitted: Awaited<ReturnType<LocalA2a['admit']>>
      try {
        admitted = await local.admit(to, { principal, method: 'SendMessage', params }, ({ retryAfterSec }) =>
          keep({ principal, to, params, retryAfterSec })
        )
      } catch (error) {
        if (!(error instanceof DeliveryRefused)) throw error
        return { created: false, ...outcomeOfRefusal(error, { to: to.eid, message }) } as unknown as JsonObject
      }
      // As with SendMessage: where none is named, the first that the grant is bound to (TD-04).
      const name = named ?? principal.grant?.queues?.[0]
      const { todo, created } = await todos.create({
        agent: homeOf(to),
        caller: principal,
        message,
        door: 'mcp',
        ...(name === undefined ? {} : { queue: name }),
        ...(priority === undefined ? {} : { priority })
      })
      if (!created) admitted.repeated()
      return { created, todo: workView(todo) }
    },
    async listGiven(principal, filter) {
      const { id, grant } = principal
      if (grant === undefined) return await todos.list({ ...filter, caller: id })
      access.authorize(principal, { agent: grant.agent, verb: 'read' })
      return await todos.list({ ...filter, agent: grant.agent, caller: id })
    },
    async send(from, { to, text, waitMs, messageId = crypto.randomUUID(), require, annotations }, signal) {
      const required = requirementsFor(require, annotations)
      const message: JsonObject = { messageId, role: 'ROLE_USER', parts: [{ text: text ?? '' }] }
      const options = { signal, require: required, ...(waitMs === undefined ? {} : { waitMs }) }
      const outcome = await node.send({ from: agents.get(from.name), to: agents.eidOf(to), message }, options)
      return { messageId, ...outcome } as unknown as JsonObject
    },
    async discover(_from, { space, tags, limit }, signal) {
      const query = { name: space, ...(tags === undefined ? {} : { tags }), ...(limit === undefined ? {} : { limit }) }
      return JSON.parse(JSON.stringify(await node.spaces.find(query, { signal }))) as { [member: string]: Json }
    }
  }
}

/** What is sent in the name of a tool: its hints are claims, so they only ever ask for less (ECC-23). @throws RookeryError `PARAMS_INVALID` */
function requirementsFor(require: JsonObject | undefined, annotations: Hints | undefined): ExecutionRequirements | undefined {
  if (annotations === undefined) return require as ExecutionRequirements | undefined
  if (require !== undefined) return tightenByAnnotations(require as unknown as ExecutionRequirements, annotations as ToolAnnotations)
  throw new RookeryError('PARAMS_INVALID', 'annotations tighten requirements, and none were given', {
    kind: 'usage',
    field: 'tool_annotations',
    remedy: 'give require as well, or leave tool_annotations out'
  })
}

/** @throws RookeryError `AGENT_UNKNOWN`, `DID_INVALID` */
function localAgent({ agents }: NodeParts, name: string): LocalAgent {
  const found = name.startsWith('did:') ? agents.ofAnyEid(eidFromDid(name)) : agents.list().find((one) => one.name === name)
  if (found !== undefined) return found
  throw new RookeryError('AGENT_UNKNOWN', 'no agent of this node has that name', {
    kind: 'notFound',
    field: 'agent',
    value: name,
    remedy: 'name an agent of this node; use send for any other'
  })
}

/** The dedup key is the messageId: one name space with A2A (TD-Q4). @throws RookeryError `PARAMS_INVALID` */
function messageOf({ text, parts, dedupKey, contextId, todoId }: CreateFor, newId: () => string): JsonObject {
  if ((text === undefined) === (parts === undefined)) {
    throw new RookeryError('PARAMS_INVALID', 'a todo needs a text or parts, not both', {
      kind: 'usage',
      field: 'text',
      remedy: 'give exactly one of text and parts'
    })
  }
  return {
    messageId: dedupKey ?? newId(),
    role: 'ROLE_USER',
    parts: parts ?? [{ text: text as string }],
    ...(contextId === undefined ? {} : { contextId }),
    ...(todoId === undefined ? {} : { taskId: todoId })
  }
}
