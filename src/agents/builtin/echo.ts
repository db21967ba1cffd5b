import type { AgentHandler, HandlerSkill, SideEffects } from '../../tasks/handler.ts'
import type { JsonObject } from '../../tasks/todo.ts'

export const sideEffects: SideEffects = 'none'

export const skills: HandlerSkill[] = [
  { id: 'echo', name: 'Echo', description: 'Gives back the parts of the message as an artifact', tags: ['echo', 'test'] }
]

const echo: AgentHandler = async ({ message }) => ({
  artifacts: [{ artifactId: 'echo', name: 'echo', parts: message.parts as JsonObject[] }]
})

export default echo
