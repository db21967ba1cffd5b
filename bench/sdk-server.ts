/** The SDK's own A2A server: express, its request handler, tasks in memory. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AgentCard, type Artifact, TaskState } from '@a2a-js/sdk'
import { AgentEvent, type AgentExecutor, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server'
import { jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express'
import express from 'express'

/** Text of a message whose task goes on until the process ends, and says what {@link SdkServer.say} is given. */
const TALK = 'talk'

export interface SdkServer {
  port: number
  say(text: string): Promise<void>
  stop(): Promise<void>
}

let talk: (text: string) => void = () => {
  throw new Error('no task runs')
}

/** Answers with what came, as `builtin:echo` of a node does. */
const echo: AgentExecutor = {
  async execute({ taskId, contextId, userMessage, task }, bus) {
    const status = (state: TaskState) => ({ state, timestamp: new Date().toISOString(), message: undefined })
    const history = [...(task?.history ?? []), userMessage]
    bus.publish(
      AgentEvent.task({ id: taskId, contextId, status: status(TaskState.TASK_STATE_WORKING), history, artifacts: [], metadata: undefined })
    )
    const { content } = userMessage.parts[0] ?? {}
    if (content?.$case === 'text' && content.value === TALK) {
      talk = (value) => {
        const parts = [{ content: { $case: 'text' as const, value }, metadata: undefined, filename: '', mediaType: '' }]
        const said: Artifact = { artifactId: 'said', name: '', description: '', parts, metadata: undefined, extensions: [] }
        bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact: said, append: false, lastChunk: true, metadata: undefined }))
      }
      return await new Promise(() => {})
    }
    const artifact: Artifact = {
      artifactId: 'text',
      name: 'text',
      description: '',
      parts: userMessage.parts,
      metadata: undefined,
      extensions: []
    }
    bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: false, lastChunk: true, metadata: undefined }))
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(TaskState.TASK_STATE_COMPLETED), metadata: undefined }))
    bus.finished()
  },
  async cancelTask() {}
}

export async function startSdkServer(): Promise<SdkServer> {
  const app = express()
  const server = createServer(app).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const card = AgentCard.fromJSON({
    name: 'echo',
    description: 'Answers with what came',
    version: '1.0.0',
    supportedInterfaces: [{ url: `http://127.0.0.1:${port}/`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: { streaming: true },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: []
  })
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), echo)
  app.use(jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }))
  return {
    port,
    say: async (text) => talk(text),
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    }
  }
}
