import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { AgentCard, Role, TaskState } from '@a2a-js/sdk'
import { type Client, ClientFactory, JsonRpcTransportFactory } from '@a2a-js/sdk/client'

const CALL_MS = 60_000

/** One caller over HTTP, with the official client: a task now and then, every fourth one as a stream. */
export class SoakClient {
  readonly #url: string
  readonly #token: string
  readonly #clients = new Map<string, Client>()
  #sent = 0

  constructor({ url, token }: { url: string; token: string }) {
    this.#url = url
    this.#token = token
  }

  /** Resolves with the task's id once it has completed. @throws whatever the client throws; Error where the task did not complete */
  async task(did: string): Promise<string> {
    const client = await this.#clientFor(did)
    const text = {
      content: { $case: 'text' as const, value: 'x'.repeat(200 + (this.#sent % 8) * 100) },
      filename: '',
      mediaType: '',
      metadata: undefined
    }
    const request = {
      tenant: '',
      metadata: undefined,
      configuration: undefined,
      message: {
        messageId: randomUUID(),
        contextId: '',
        taskId: '',
        role: Role.ROLE_USER,
        parts: [text],
        metadata: undefined,
        extensions: [],
        referenceTaskIds: []
      }
    }
    if (++this.#sent % 4 === 0) {
      let id = ''
      let state: TaskState | undefined
      for await (const { payload } of client.sendMessageStream(request)) {
        if (payload?.$case === 'task') {
          id = payload.value.id
          state = payload.value.status?.state
        } else if (payload?.$case === 'statusUpdate') state = payload.value.status?.state
      }
      return completed(id, state)
    }
    const answer = await client.sendMessage(request)
    if (!('status' in answer)) throw new Error('the answer is no task')
    return completed(answer.id, answer.status?.state)
  }

  async #clientFor(did: string): Promise<Client> {
    const held = this.#clients.get(did)
    if (held !== undefined) return held
    const signal = AbortSignal.timeout(CALL_MS)
    const card = AgentCard.fromJSON(await (await fetch(`${this.#url}/agents/${did}/.well-known/agent-card.json`, { signal })).json())
    const fetchImpl = (input: Parameters<typeof fetch>[0], init?: RequestInit) => {
      const headers = new Headers(init?.headers)
      headers.set('Authorization', `Bearer ${this.#token}`)
      return fetch(input, { ...init, headers, signal: AbortSignal.timeout(CALL_MS) })
    }
    // the card of an agent of another node names that node's own door: the call goes by ours
    for (const one of card.supportedInterfaces) one.url = `${this.#url}/agents/${did}`
    const client = await new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl })] }).createFromAgentCard(card)
    this.#clients.set(did, client)
    return client
  }
}

function completed(id: string, state: TaskState | undefined): string {
  if (id !== '' && state === TaskState.TASK_STATE_COMPLETED) return id
  throw new Error(`a task ended as ${state === undefined ? 'nothing' : TaskState[state]}`)
}

/** Calls `act` again and again, a while apart, until the signal fires. `act` never rejects. */
export async function repeat(everyMs: () => number, signal: AbortSignal, act: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await sleep(everyMs(), undefined, { signal }).catch(() => {})
    if (!signal.aborted) await act()
  }
}
