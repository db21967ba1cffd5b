import type { JsonObject, Todo } from '../tasks/todo.ts'

/**
 * Where a node keeps its callers' TaskPushNotificationConfigs, in ProtoJSON. Whether the caller may see the task was checked before. What is given back
 * holds no secret.
 */
export interface PushConfigs {
  /**
   * Without `id` a new one, else in place of the one of that id.
   * @throws A2aError `INVALID_PARAMS` (the URL is refused, or a bound)
   */
  set(todo: Todo, config: JsonObject): Promise<JsonObject>
  get(taskId: string, id: string): Promise<JsonObject | undefined>
  list(taskId: string): Promise<JsonObject[]>
  /** one that is not there is deleted already */
  delete(taskId: string, id: string): Promise<void>
  /** what `set` would refuse of a config, before there is a task @throws A2aError `INVALID_PARAMS` */
  check(config: JsonObject): Promise<void>
}
