import { isDeepStrictEqual } from 'node:util'
import type { EidHex } from '../../protocol/identity/eid.ts'
import { invalidParams } from '../a2a/a2a-error.ts'
import type { PushConfigs } from '../a2a/push-configs.ts'
import { RookeryError } from '../errors.ts'
import type { Grants } from '../grants/grants.ts'
import type { Clock } from '../platform/clock.ts'
import type { Logger } from '../platform/logger.ts'
import type { Random } from '../platform/random.ts'
import type { Tracer } from '../platform/tracer.ts'
import type { Store } from '../store/store.ts'
import type { Json, JsonObject, Todo, Todos } from '../tasks/todo.ts'
import { systemResolve } from './post.ts'
import { type PushRow, PushRows } from './push-rows.ts'
import { type PushCounts, PushSender, type PushView } from './push-sender.ts'
import { type Resolve, readTarget, type TargetRules, vetted } from './target.ts'

const ID = /^[A-Za-z0-9._:-]{1,64}$/
const SCHEME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/
const SECRET = /^[\x20-\x7e]{1,4096}$/

export interface NodePushComponents {
  store: Store
  todos: Todos
  grants: Pick<Grants, 'onEvent'>
  /** the EID that a peer was first known by here */
  rootOf: (eid: EidHex) => EidHex
  view: PushView
  clock: Clock
  random: Random
  logger: Logger
  /** whom it may call, asked for at every use */
  rules: () => TargetRules
  userAgent: string
  /** how long what ended is still shown */
  keptMs?: number
  /** default: nothing is traced */
  tracer?: Tracer
  /** default: the system's */
  resolve?: Resolve
}

/**
 * Push notifications of a node: the configurations of its callers' tasks, and the sender behind them. Whether a caller may see a task is checked by who
 * calls this.
 */
export class NodePush implements PushConfigs {
  readonly #c: NodePushComponents
  readonly #rows: PushRows
  readonly #sender: PushSender
  readonly #resolve: Resolve
  readonly #off: () => void

  private constructor(components: NodePushComponents, rows: PushRows) {
    this.#c = components
    this.#rows = rows
    this.#resolve = components.resolve ?? systemResolve
    this.#sender = new PushSender({ ...components, rows, resolve: this.#resolve })
    this.#off = components.grants.onEvent(({ kind, grant }) => {
      if (kind !== 'revoked' && kind !== 'expired') return
      const owner = grant.peer === undefined ? `grant:${grant.id}` : `eid:${components.rootOf(grant.peer)}`
      void this.#end(owner, grant.agent).catch((err: unknown) =>
        components.logger.error({ err }, 'webhooks of a grant that ended are still on disk')
      )
    })
  }

  static async open(components: NodePushComponents): Promise<NodePush> {
    return new NodePush(components, await PushRows.open(components))
  }

  start(): void {
    this.#sender.start()
  }

  async stop(): Promise<void> {
    this.#off()
    await this.#sender.stop()
  }

  /** Who was let in no more has this node call nobody any more (G-56). */
  async #end(owner: string, agent: string): Promise<void> {
    const rows = [...this.#rows.all()].filter((row) => row.owner === owner && row.agent === agent)
    for (const row of rows) this.#sender.forget(row)
    if (rows.length > 0) await this.#rows.delete(rows)
  }

  /**
   * Without `id` a new one, else in place of the one of that id. What is told begins with the first event after `todo` as it is given.
   * @returns the configuration without its secrets
   * @throws A2aError `INVALID_PARAMS` (URL refused, malformed, a bound)
   */
  async set(todo: Todo, config: JsonObject): Promise<JsonObject> {
    const { id, ...read } = await this.#read(config)
    // A send that is repeated brings its configuration along again.
    const same = id === undefined ? this.#rows.ofTask(todo.id).find((row) => isDeepStrictEqual(targetOf(row), targetOf(read))) : undefined
    if (same !== undefined) return shown(same)
    const nowMs = this.#c.clock.nowMs()
    try {
      const row = await this.#rows.put({
        ...read,
        ...(id === undefined ? {} : { id }),
        taskId: todo.id,
        owner: todo.caller,
        agent: todo.agent,
        place: { n: todo.seq ?? 0, piece: 0 },
        state: 'active',
        createdAtMs: nowMs,
        changedAtMs: nowMs,
        attempts: 0
      })
      this.#sender.kick(row)
      return shown(row)
    } catch (error) {
      if (error instanceof RookeryError && error.code === 'PUSH_CONFIGS_FULL')
        throw invalidParams('taskId', error.message, { cause: error.code })
      throw error
    }
  }

  /** What {@link set} would refuse of a configuration. @throws A2aError `INVALID_PARAMS` */
  async check(config: JsonObject): Promise<void> {
    await this.#read(config)
  }

  async get(taskId: string, id: string): Promise<JsonObject | undefined> {
    const row = this.#rows.get(taskId, id)
    return row === undefined ? undefined : shown(row)
  }

  async list(taskId: string): Promise<JsonObject[]> {
    return this.#rows.ofTask(taskId).map(shown)
  }

  /** One that is not there is deleted already. */
  async delete(taskId: string, id: string): Promise<void> {
    const row = this.#rows.get(taskId, id)
    if (row === undefined) return
    this.#sender.forget(row)
    await this.#rows.delete([row])
  }

  /** For the operator: every webhook, without secrets, with what became of it. */
  all(): Omit<PushRow, 'token' | 'authentication'>[] {
    return [...this.#rows.all()].map(({ token: _, authentication: __, ...row }) => row)
  }

  /** The operator's word: tried now, as if it had not failed. @throws RookeryError `PUSH_UNKNOWN` */
  async retry(taskId: string, id: string): Promise<void> {
    const row = this.#rows.get(taskId, id)
    if (row === undefined) {
      throw new RookeryError('PUSH_UNKNOWN', `no task ${taskId.slice(0, 80)} has a webhook ${id.slice(0, 64)}`, {
        kind: 'notFound',
        field: 'id',
        value: id.slice(0, 64),
        remedy: 'list them with `rookery push list`'
      })
    }
    await this.#sender.retry(row)
  }

  /** `calling`: receivers that are called just now */
  counts(): PushCounts & { configs: number; calling: number } {
    return { ...this.#sender.counts(), configs: this.#rows.size }
  }

  async #read(config: JsonObject): Promise<Pick<PushRow, 'url' | 'token' | 'authentication'> & { id: string | undefined }> {
    const { url, token } = config
    const id = text(config.id)
    if (id !== undefined && !ID.test(id)) throw invalidParams('id', 'has 1 to 64 characters of A-Z a-z 0-9 . _ : -')
    if (typeof url !== 'string' || url === '') throw invalidParams('url', 'is missing')
    if (token !== undefined && token !== null && token !== '' && (typeof token !== 'string' || !SECRET.test(token))) {
      throw invalidParams('token', 'is no printable ASCII text of at most 4096 characters')
    }
    const authentication = authenticationOf(config.authentication)
    try {
      await vetted(readTarget(url, this.#c.rules()), this.#c.rules(), this.#resolve)
    } catch (error) {
      if (error instanceof RookeryError && (error.code === 'PUSH_URL_REFUSED' || error.code === 'PUSH_UNRESOLVED')) {
        throw invalidParams('url', error.message, { cause: error.code })
      }
      throw error
    }
    const secret = text(token)
    return { id, url, ...(secret === undefined ? {} : { token: secret }), ...(authentication === undefined ? {} : { authentication }) }
  }
}

/** @throws A2aError `INVALID_PARAMS` */
function authenticationOf(given: Json | undefined): PushRow['authentication'] {
  if (given === undefined || given === null) return undefined
  if (typeof given !== 'object' || Array.isArray(given)) throw invalidParams('authentication', 'is no object')
  const { scheme, credentials } = given
  if (typeof scheme !== 'string' || !SCHEME.test(scheme)) throw invalidParams('authentication.scheme', 'is no name of an HTTP scheme')
  const secret = text(credentials)
  if (credentials !== undefined && credentials !== null && credentials !== '' && (secret === undefined || !SECRET.test(secret))) {
    throw invalidParams('authentication.credentials', 'is no printable ASCII text of at most 4096 characters')
  }
  return { scheme, ...(secret === undefined ? {} : { credentials: secret }) }
}

function text(value: Json | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function targetOf({ url, token, authentication }: Pick<PushRow, 'url' | 'token' | 'authentication'>): object {
  return { url, token, authentication }
}

/** Secrets stay here: their owner has them. */
function shown({ id, taskId, url, authentication }: PushRow): JsonObject {
  return { id, taskId, url, ...(authentication === undefined ? {} : { authentication: { scheme: authentication.scheme } }) }
}
