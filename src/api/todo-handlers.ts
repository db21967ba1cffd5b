import { taskJson } from '../a2a/projection.ts'
import { homeOf } from '../identity/agent.ts'
import type { RookeryNode } from '../rookery-node.ts'
import { todoUnknown } from '../tasks/todo-errors.ts'
import type { ControlHandlers } from './control-server.ts'
import type { TodoResults } from './todo-methods.ts'

/** What the owner does about Todos beside answering them by hand. */
export function todoHandlers(node: RookeryNode): Pick<ControlHandlers, keyof TodoResults> {
  const { todos } = node
  return {
    async 'inbox.dead'({ agent, limit }) {
      const names = new Map(node.agents.list().map((one) => [homeOf(one), one.name]))
      const letters = await todos.deadLetters({
        ...(agent === undefined ? {} : { agent: homeOf(node.agents.get(agent)) }),
        ...(limit === undefined ? {} : { limit })
      })
      return await Promise.all(
        letters.map(async (letter) => ({
          ...letter,
          agent: names.get(letter.agent) ?? letter.agent,
          caller: (await todos.get(letter.id))?.caller ?? ''
        }))
      )
    },
    async 'inbox.retry'({ id }) {
      const { todo, created } = await todos.requeue(id)
      return { todo, created, task: taskJson(todo) }
    },
    async 'inbox.drop'({ id }) {
      await todos.drop(id)
      return { dropped: id }
    },
    async 'inbox.reject'({ id, reason }) {
      const todo = await todos.reject(id, undefined, reason)
      return { todo, task: taskJson(todo) }
    },
    async 'inbox.trail'({ id }) {
      const todo = await todos.get(id)
      if (todo === undefined) throw todoUnknown(id)
      return { id, events: todo.trail ?? [], late: await todos.lateResults(id) }
    }
  }
}
