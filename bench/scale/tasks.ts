/** How many tasks one node keeps: made, claimed, ended and listed in a node, and taken up again by its next start. */
import type { EidHex } from '../../protocol/identity/eid.ts'
import type { LevelTodos } from '../../src/tasks/level-todos.ts'
import { newAgent } from '../endpoints.ts'
import type { ScaleFigures, ScaleOrder } from './figures.ts'
import { inLanes, Measurement, serveKind, times } from './measurement.ts'
import { NodeUnderTest } from './node-under-test.ts'
import { refusal } from './operator.ts'

const LANES = 256
const CALLERS = 100
const SAMPLES = 100
const PAGE = 100
const LEASE_MS = 3_600_000
const MORE_THAN_ALL = 1_000_000
const METRICS = /^rookery_(todos|bound)/
const STATUS = ['tasks.openMax', 'tasks.openPerCallerMax']

const callers = Array.from({ length: CALLERS }, () => newAgent().eidHex)
const message = (i: number) => ({
  messageId: `m-${i}`,
  role: 'ROLE_USER',
  parts: [{ text: 'sort the letters of last week by who wrote them' }]
})

class Tasks {
  readonly #todos: LevelTodos
  readonly #agent: EidHex
  made = 0

  constructor(todos: LevelTodos, agent: EidHex, made = 0) {
    this.#todos = todos
    this.#agent = agent
    this.made = made
  }

  async create(caller = callers[this.made % CALLERS] as EidHex): Promise<void> {
    const input = {
      agent: this.#agent,
      caller: { id: `eid:${caller}`, eid: caller },
      message: message(this.made++),
      door: 'library' as const
    }
    await this.#todos.create(input)
  }

  async claimAndComplete(): Promise<void> {
    const todo = await this.#todos.claim(this.#agent, 'bench', { leaseMs: LEASE_MS })
    if (todo === undefined) throw new Error('no task is left to claim')
    await this.#todos.complete(todo.id, 'bench', [{ artifactId: 'a', parts: [{ text: 'sorted' }] }])
  }

  /** All pages. @returns how many tasks, and how long each page took, ms */
  async list(): Promise<{ listed: number; pageMs: number[] }> {
    const pageMs: number[] = []
    let listed = 0
    let cursor: string | undefined
    do {
      const startedMs = performance.now()
      const page = await this.#todos.list({ agent: this.#agent, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) })
      pageMs.push(performance.now() - startedMs)
      listed += page.todos.length
      cursor = page.next
    } while (cursor !== undefined)
    return { listed, pageMs }
  }

  /** One of each, three of them new so that as many wait as before. */
  async sample(): Promise<Record<string, number[]>> {
    return {
      create: await times(SAMPLES, () => this.create()),
      'claim and complete': await times(SAMPLES, () => this.claimAndComplete()),
      'first page': await times(SAMPLES / 10, () => this.#todos.list({ agent: this.#agent, limit: PAGE }))
    }
  }
}

/** A node with default bounds: one caller reaches its own, many together that of all. */
async function atTheBound(run: Measurement, folder: string): Promise<void> {
  run.step('a node at its bounds')
  const { node, operator } = await new NodeUnderTest(folder, 'bounded').start()
  const agent = (await node.addAgent({ name: 'worker' })).eidHex
  const tasks = new Tasks(node.todos, agent)
  const { openMax, openPerCallerMax } = node.todos.bounds
  const refusedAt = async (count: number, caller?: EidHex) => {
    let error: unknown
    await inLanes(
      count,
      LANES,
      async () => {
        try {
          await tasks.create(caller)
        } catch (refused) {
          error ??= refused
        }
      },
      () => error !== undefined
    )
    return error
  }
  const one = newAgent().eidHex
  const ofOne = await refusedAt(openPerCallerMax + 1, one)
  run.said({ where: 'caller', words: `one caller's task after ${openPerCallerMax} open ones: ${refusal(ofOne).words}` })
  if (run.order.size >= openMax) {
    const ofAll = await refusedAt(openMax + 1)
    run.said({ where: 'caller', words: `any caller's task after ${openMax} open ones: ${refusal(ofAll).words}` })
  }
  run.said(...(await operator.look(node, run, { at: 'at the default bounds', metrics: METRICS, status: STATUS })))
  await node.stop()
}

async function measure(order: ScaleOrder): Promise<ScaleFigures> {
  const under = new NodeUnderTest(order.folder, 'node')
  const run = new Measurement(order, under.dataDir)
  const raised = { tasks: { openMax: MORE_THAN_ALL, openPerCallerMax: MORE_THAN_ALL } }
  const first = await under.start(raised)
  const agent = (await first.node.addAgent({ name: 'worker' })).eidHex
  const tasks = new Tasks(first.node.todos, agent)
  run.begin()
  for (const at of [0, order.size / 2, order.size].map(Math.round)) {
    await inLanes(at - tasks.made, LANES, async () => {
      await tasks.create()
      run.progress(`${tasks.made.toLocaleString('en')} tasks`)
    })
    await run.stage(at, () => tasks.sample())
  }
  run.step('listing page by page')
  const { listed, pageMs } = await run.timed('list all, 100 a page', () => tasks.list())
  run.fact('listed', listed, 'tasks')
  run.fact('the slowest page', Math.max(...pageMs), 'ms')
  await first.operator.look(first.node, run, { at: `with ${order.size} open tasks`, metrics: METRICS, status: STATUS })
  await run.timed('stop with them', () => first.node.stop())
  run.step('starting again')
  const again = await run.timed('start with them', () => under.start(raised))
  await again.node.stop()
  run.step('starting with default bounds')
  const { node, operator } = await under.start()
  run.said(...(await operator.look(node, run, { at: 'with the default bounds over them', metrics: METRICS, status: STATUS })))
  await node.stop()
  await atTheBound(run, order.folder)
  run.note('Bounds were raised for the growing: tasks.openMax and tasks.openPerCallerMax.')
  return run.done()
}

await serveKind(measure)
