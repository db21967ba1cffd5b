import { describe, expect, it } from 'vitest'
import { runSessionModel } from '../../support/session-model.ts'

describe('the session machine under random frames, losses, reorderings and crashes of either side', () => {
  it('[PSS-06] [PSS-07] [G-50] applies what was journaled once and in order, and has applied what is acked, over 2,000 commands', () => {
    expect(runSessionModel({ commands: Number(process.env.ROOKERY_MODEL_COMMANDS ?? 2_000) }).commands).toBeGreaterThanOrEqual(2_000)
  })
})
