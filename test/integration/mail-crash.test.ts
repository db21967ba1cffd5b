import { beforeAll, describe, expect, it } from 'vitest'
import { MailJudge, type Seen } from '../soak/mail-judge.ts'
import { MAIL_CYCLE_KINDS, type MailResult, runMailCrash } from '../soak/mail-run.ts'

const CYCLES = 10
/** As many of them as begin within this; `npm run crash -- --scenario mail` does the rest on a slow machine. */
const BUDGET_MS = 30_000
/** Takes each kind of cycle once. */
const SEED = 100
const RUN_MS_MAX = 400_000

describe(`a sender, a keeper and a sleeper, through up to ${CYCLES} crashes, lost clocks and full disks`, () => {
  let result: MailResult
  beforeAll(async () => {
    result = await runMailCrash({ cycles: CYCLES, seed: SEED, budgetMs: BUDGET_MS })
  }, RUN_MS_MAX)

  it('[OD-41] [OD-51] [OD-36] [F088] loses nothing that was accepted, handles nothing twice, and is never ahead of the truth', () => {
    const failed = result.cycles.filter(({ violations }) => violations.length > 0)
    expect(failed, `replay: npm run crash -- --scenario mail --seed ${failed[0]?.seed} --cycles 1`).toEqual([])
    expect(result.cycles.length).toBeGreaterThan(0)
    expect(result.cycles.map(({ kind }) => kind)).toEqual(MAIL_CYCLE_KINDS.slice(0, result.cycles.length))
    expect(result.handled).toBeGreaterThanOrEqual(result.accepted)
    expect(result.accepted).toBeGreaterThan(1)
    expect(result.kills).toBeGreaterThan(0)
  })
})

describe('what the mail scenario calls a violation', () => {
  const task = (messageId: string, state = 'done', createdAtMs = 1) => ({ messageId, state, createdAtMs })
  const entry = (messageId: string, state: string) => ({ messageId, state, keepers: 0 })
  const seen = (more: Partial<Seen>): Seen => ({
    outbox: [entry('m-0000001', 'handled')],
    tasks: [task('m-0000001')],
    held: 0,
    queued: 0,
    ...more
  })
  const judge = () => {
    const one = new MailJudge()
    one.hear({ kind: 'accepted', k: 1 })
    return one
  }

  it('[OD-51] is content when all that was accepted is handled once and nothing is left', () => {
    expect(judge().never(seen({}))).toEqual([])
    expect(judge().missing(seen({}))).toEqual([])
  })

  it('[OD-51] holds nobody to what was told after their disk was looked at, nor to what was accepted after it', () => {
    const one = judge()
    const before = one.claims()
    one.hear({ kind: 'accepted', k: 2 })
    one.hear({ kind: 'told', messageId: 'm-0000002', state: 'delivered' })
    expect(one.never(seen({}), before)).toEqual([])
    expect(one.never(seen({})).join()).toContain('m-0000002 is said to be delivered, and no task is there')
  })

  it('sees that a message was overtaken, from the cycle on that is judged', () => {
    const one = judge()
    one.hear({ kind: 'accepted', k: 2 })
    const tasks = [task('m-0000002', 'done', 1), task('m-0000001', 'done', 2)]
    expect(one.disorder({ tasks: [...tasks] }, 'm-0000001')).toEqual(['m-0000002 became a task before m-0000001'])
    expect(one.disorder({ tasks: [...tasks] }, 'm-0000002')).toEqual([])
    expect(one.disorder({ tasks: [task('m-0000002'), task('m-0000001')] }, 'm-0000001')).toEqual([])
  })

  it.each<[string, Partial<Seen>, string]>([
    ['a message that became two tasks', { tasks: [task('m-0000001'), task('m-0000001')] }, 'became 2 tasks'],
    ['a state ahead of the truth', { tasks: [], outbox: [entry('m-0000001', 'delivered')] }, 'said to be delivered, and no task is there'],
    ['an accepted message that is gone', { tasks: [], outbox: [] }, 'no longer in the outbox'],
    ['a message given up', { tasks: [], outbox: [entry('m-0000001', 'refused(X)')] }, 'nothing was wrong with it']
  ])('[OD-51] never accepts %s', (_, more, violation) => {
    expect(judge().never(seen(more)).join()).toContain(violation)
  })

  it.each<[string, Partial<Seen>, string]>([
    ['a task that has not ended', { tasks: [task('m-0000001', 'pending')] }, 'is not handled'],
    ['a sender that does not know it', { outbox: [entry('m-0000001', 'kept-by-1')] }, 'is kept-by-1 to its sender'],
    ['a keeper that holds mail', { held: 1 }, 'still holds 1'],
    ['a queue that holds mail', { queued: 2 }, '2 still wait']
  ])('[OD-51] waits while there is %s', (_, more, violation) => {
    expect(judge().missing(seen(more)).join()).toContain(violation)
  })
})
