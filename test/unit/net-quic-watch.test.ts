import { describe, expect, it } from 'vitest'
import { ASK_AGAIN_MS, ASK_MS, PAUSE_MAX_MS, PAUSE_MIN_MS, QuicWatch, SILENT_MAX } from '../../src/net/quic-watch.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { silentLogger } from '../../src/platform/logger.ts'

const ADDRESS = '/ip4/127.0.0.1/udp/4711/quic-v1'

/** A listener whose socket lives or not, and that can be bound anew or not. */
function world() {
  const clock = new ManualClock()
  const state = {
    isDead: false,
    isStuck: false,
    isFlooded: false,
    cannotBind: undefined as Error | undefined,
    bound: 0,
    asked: 0,
    clients: 0
  }
  const watch = new QuicWatch({ clock, logger: silentLogger }, async () => {
    state.clients++
  })
  const end = watch.watch({
    address: ADDRESS,
    answers: async () => {
      state.asked++
      return !state.isDead && !state.isFlooded
    },
    bindAnew: async () => {
      if (state.cannotBind !== undefined) throw state.cannotBind
      if (state.isStuck) return 'stuck'
      state.bound++
      state.isDead = false
      return 'bound'
    }
  })
  const pass = async (ms: number) => {
    clock.advance(ms)
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve))
  }
  return { state, watch, end, pass }
}

describe('the watch over sockets of QUIC', () => {
  it('leaves one alone that answers, and one that was silent fewer times in a row than count', async () => {
    const { state, watch, pass } = world()
    for (let i = 0; i < 5; i++) await pass(ASK_MS)
    expect(state).toMatchObject({ asked: 5, bound: 0 })
    state.isDead = true
    await pass(ASK_MS)
    for (let i = 2; i < SILENT_MAX; i++) await pass(ASK_AGAIN_MS)
    state.isDead = false
    await pass(ASK_AGAIN_MS)
    expect(state.bound).toBe(0)
    expect(watch.fault()).toBeUndefined()
  })

  it('[OD-22] binds one anew that does not answer, those that dial too, says so meanwhile, and is content when it answers', async () => {
    const { state, watch, pass } = world()
    await pass(ASK_MS)
    state.isDead = true
    await pass(ASK_MS)
    for (let i = 1; i < SILENT_MAX; i++) await pass(ASK_AGAIN_MS)
    expect(state).toMatchObject({ bound: 1, clients: 1 })
    expect(watch.fault()).toMatchObject({ needs: 'time', detail: expect.stringContaining(ADDRESS) })
    await pass(ASK_AGAIN_MS)
    expect(watch.fault()).toBeUndefined()
    expect(state).toMatchObject({ bound: 1, clients: 1 })
  })

  it('[OD-22] says why one cannot be bound, tries again until it can, and stops with its listener', async () => {
    const { state, watch, end, pass } = world()
    await pass(ASK_MS)
    state.isDead = true
    state.cannotBind = new Error('the address is not of this machine')
    await pass(ASK_MS)
    for (let i = 1; i < SILENT_MAX + 3; i++) await pass(ASK_AGAIN_MS)
    expect(watch.fault()).toMatchObject({ needs: 'time', detail: expect.stringContaining('the address is not of this machine') })
    state.cannotBind = undefined
    await pass(ASK_AGAIN_MS)
    expect(state.bound).toBe(1)
    await pass(ASK_AGAIN_MS)
    expect(watch.fault()).toBeUndefined()
    end()
    const { asked } = state
    for (let i = 0; i < 5; i++) await pass(ASK_MS)
    expect(state.asked).toBe(asked)
  })

  it('[OD-22] says that only a restart helps where the dead socket cannot be given up, and asks no more', async () => {
    const { state, watch, pass } = world()
    await pass(ASK_MS)
    Object.assign(state, { isDead: true, isStuck: true })
    await pass(ASK_MS)
    for (let i = 1; i < SILENT_MAX; i++) await pass(ASK_AGAIN_MS)
    expect(watch.fault()).toMatchObject({ needs: 'restart', detail: expect.stringContaining('restart the node') })
    const { asked } = state
    for (let i = 0; i < 5; i++) await pass(ASK_MS)
    expect(state.asked).toBe(asked)
  })

  it('[OD-22] takes new sockets less and less often where they answer no better, as under a flood, and no more once it answers', async () => {
    const { state, pass } = world()
    await pass(ASK_MS)
    state.isFlooded = true
    await pass(ASK_MS)
    for (let i = 1; i < SILENT_MAX; i++) await pass(ASK_AGAIN_MS)
    expect(state.bound).toBe(1)
    const boundAfter = async (ms: number) => {
      for (let passedMs = 0; passedMs < ms; passedMs += ASK_AGAIN_MS) await pass(ASK_AGAIN_MS)
      return state.bound
    }
    expect(await boundAfter(PAUSE_MIN_MS - ASK_AGAIN_MS)).toBe(1)
    expect(await boundAfter(ASK_AGAIN_MS)).toBe(2)
    expect(await boundAfter(2 * PAUSE_MIN_MS - ASK_AGAIN_MS)).toBe(2)
    expect(await boundAfter(ASK_AGAIN_MS)).toBe(3)
    await boundAfter(3_600_000)
    const { bound } = state
    expect(await boundAfter(10 * PAUSE_MAX_MS)).toBe(bound + 10)
    state.isFlooded = false
    await pass(ASK_AGAIN_MS)
    for (let i = 0; i < 5; i++) await pass(ASK_MS)
    expect(state.bound).toBe(bound + 10)
    state.isDead = true
    await pass(ASK_MS)
    for (let i = 1; i < SILENT_MAX; i++) await pass(ASK_AGAIN_MS)
    expect(state.bound).toBe(bound + 11)
  })

  it('[OD-22] leaves one alone that never answered: whatever lies between may drop what the node sends to itself', async () => {
    const { state, watch, pass } = world()
    state.isFlooded = true
    for (let i = 0; i < 100; i++) await pass(ASK_MS)
    expect(state.bound).toBe(0)
    expect(watch.fault()).toBeUndefined()
  })
})
