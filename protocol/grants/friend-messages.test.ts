import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fromHex, toHex } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { decodeFriendMessage, encodeFriendMessage, FRIEND_MESSAGE_BYTES_MAX, type FriendMessage, GRANT_VERBS } from './friend-messages.ts'

interface Row {
  id: string
  note: string
  hex: string
  decoded?: object
  error?: string
}

const ROWS = JSON.parse(readFileSync(new URL('../vectors/friend.json', import.meta.url), 'utf8')) as Row[]
const shown = (message: FriendMessage) => ({ ...message, id: toHex(message.id) })

const arbId = fc.uint8Array({ minLength: 16, maxLength: 16 })
const arbVerbs = fc.subarray([...GRANT_VERBS], { minLength: 1 })
const arbText = (max: number) => fc.stringMatching(new RegExp(`^[ -~äöü✓]{0,${Math.floor(max / 3)}}$`))
const arbMessage: fc.Arbitrary<FriendMessage> = fc.oneof(
  fc.record({ type: fc.constant('request' as const), id: arbId, name: arbText(64), note: arbText(512), verbs: arbVerbs }),
  fc.record({ type: fc.constant('answer' as const), id: arbId, state: fc.constantFrom('pending', 'busy', 'denied', 'ended') }),
  fc.record({
    type: fc.constant('answer' as const),
    id: arbId,
    state: fc.constant('approved' as const),
    grant: fc.record({ id: fc.stringMatching(/^[0-9a-f]{16}$/), verbs: arbVerbs, untilMs: fc.maxSafeNat() })
  })
)

describe('friend messages', () => {
  it.each(ROWS)('[TD-06] $id: $note', ({ hex, decoded, error }) => {
    if (error !== undefined) {
      expect(() => decodeFriendMessage(fromHex(hex))).toThrow(expect.objectContaining({ name: 'ProtocolError', code: error }))
      return
    }
    const message = decodeFriendMessage(fromHex(hex))
    expect(shown(message)).toEqual(decoded)
    expect(toHex(encodeFriendMessage(message))).toBe(hex)
  })

  it('[TD-06] come back as they were written, and fit their bound', () => {
    fc.assert(
      fc.property(arbMessage, (message) => {
        const bytes = encodeFriendMessage(message)
        expect(bytes.length).toBeLessThanOrEqual(FRIEND_MESSAGE_BYTES_MAX)
        expect(decodeFriendMessage(bytes)).toEqual(message)
      })
    )
  })

  it('[TD-06] meet arbitrary bytes with a message or a ProtocolError, nothing else', () => {
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 300 }), fc.constant(new Uint8Array(FRIEND_MESSAGE_BYTES_MAX + 1))), (bytes) => {
        try {
          decodeFriendMessage(bytes)
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
        }
      })
    )
  })
})
