import type { Task } from '@a2a-js/sdk'
import { SendMessageRequest, Task as TaskCodec } from '@a2a-js/sdk'
import { type Client, ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from '@a2a-js/sdk/client'

/** What the official SDK client was answered, with the HTTP status that it does not show by itself. */
export type SendOutcome =
  | { kind: 'task'; task: Record<string, unknown>; httpStatus: number }
  | { kind: 'refused'; httpStatus: number; body: Record<string, unknown>; error: unknown }

export interface OutgoingPart {
  text?: string
  /** base64 */
  raw?: string
  filename?: string
  mediaType?: string
}

/** The official A2A SDK's client, pointed at one agent through a node's edge, authorised by a local agent's token. */
export class DemoA2aClient {
  readonly #client: Client
  readonly #last: { status: number; body: string }

  private constructor(client: Client, last: { status: number; body: string }) {
    this.#client = client
    this.#last = last
  }

  /** @param url - `http://127.0.0.1:PORT/agents/DID` */
  static async connect(url: string, token: string): Promise<DemoA2aClient> {
    const last = { status: 0, body: '' }
    const fetchImpl: typeof fetch = async (input, init) => {
      const headers = new Headers(init?.headers)
      headers.set('authorization', `Bearer ${token}`)
      const response = await fetch(input, { ...init, headers })
      last.status = response.status
      last.body = await response.clone().text()
      return response
    }
    const factory = new ClientFactory({
      transports: [new JsonRpcTransportFactory({ fetchImpl })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl })
    })
    return new DemoA2aClient(await factory.createFromUrl(`${url}/.well-known/agent-card.json`, ''), last)
  }

  async send(message: { messageId: string; parts: OutgoingPart[] }, signal: AbortSignal): Promise<SendOutcome> {
    const request = SendMessageRequest.fromJSON({ message: { ...message, role: 'ROLE_USER' } })
    try {
      const result = await this.#client.sendMessage(request, { signal })
      return { kind: 'task', task: TaskCodec.toJSON(result as Task) as Record<string, unknown>, httpStatus: this.#last.status }
    } catch (error) {
      if (signal.aborted) throw signal.reason
      if (this.#last.status < 400) throw error
      return { kind: 'refused', httpStatus: this.#last.status, body: parse(this.#last.body), error }
    }
  }
}

function parse(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return { text }
  }
}

/** Whether the node says that it stored the message, wherever this form of the refusal keeps the token (G-03 … G-05). */
export function asleepOf(body: Record<string, unknown>): { asleep: boolean; queued: boolean } {
  const error = body.error as string | { data?: unknown } | undefined
  if (error === 'agent_asleep') return { asleep: true, queued: body.queued === true }
  const data = typeof error === 'object' ? error.data : undefined
  const details = (Array.isArray(data) ? data : [data]).filter(
    (one): one is Record<string, unknown> => typeof one === 'object' && one !== null
  )
  return {
    asleep: details.some((one) => one.error === 'agent_asleep' || one.reason === 'AGENT_ASLEEP'),
    queued: details.some((one) => one.queued === true || (one.metadata as { queued?: unknown } | undefined)?.queued === 'true')
  }
}
