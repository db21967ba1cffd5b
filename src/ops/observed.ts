import { Counter, Histogram } from 'prom-client'

/** What is no state that could be read later: counted and timed as it happens, for {@link nodeMetrics}. Belongs to one node. */
export class Observed {
  readonly #registers = { registers: [] }

  /** requests to the node's HTTP doors, streams until their end */
  readonly http = new Histogram({
    name: 'rookery_http_request_duration_seconds',
    help: 'requests to the HTTP doors, from their head to the end of their answer, streams included',
    labelNames: ['door', 'route', 'method', 'status'] as const,
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60],
    ...this.#registers
  })

  readonly control = new Histogram({
    name: 'rookery_control_call_duration_seconds',
    help: 'calls of the control API, the command line among them',
    labelNames: ['method', 'outcome'] as const,
    buckets: [0.002, 0.01, 0.05, 0.25, 1, 5, 30],
    ...this.#registers
  })

  readonly tasksCreated = new Counter({
    name: 'rookery_tasks_created_total',
    help: 'tasks made, by the protocol that they came by',
    labelNames: ['door'] as const,
    ...this.#registers
  })

  readonly tasks = new Histogram({
    name: 'rookery_task_duration_seconds',
    help: 'tasks that ended, from the moment they were made; waiting for answers and approvals is in it',
    labelNames: ['state'] as const,
    buckets: [0.01, 0.05, 0.25, 1, 5, 30, 120, 600, 3_600, 86_400],
    ...this.#registers
  })

  readonly storeSync = new Histogram({
    name: 'rookery_store_sync_duration_seconds',
    help: 'synced batches of the store, each for all who waited',
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    ...this.#registers
  })

  readonly dht = new Histogram({
    name: 'rookery_dht_query_duration_seconds',
    help: 'questions to the DHT by what was asked and what came of it',
    labelNames: ['query', 'outcome'] as const,
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    ...this.#registers
  })

  readonly work = new Histogram({
    name: 'rookery_work_duration_seconds',
    help: 'proofs of work of this node: solved, or given up',
    labelNames: ['outcome'] as const,
    buckets: [0.01, 0.05, 0.25, 1, 5, 15, 60],
    ...this.#registers
  })

  readonly workTries = new Counter({ name: 'rookery_work_tries_total', help: 'hashes computed for proofs of work', ...this.#registers })

  get all() {
    return [this.http, this.control, this.tasksCreated, this.tasks, this.storeSync, this.dht, this.work, this.workTries]
  }
}
