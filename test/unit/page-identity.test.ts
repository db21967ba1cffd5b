import { MemoryLevel } from 'memory-level'
import { describe, expect, it } from 'vitest'
import { toHex } from '../../protocol/bytes.ts'
import { nobleCrypto } from '../../protocol/crypto/noble.ts'
import { mailboxKid } from '../../protocol/delivery/object.ts'
import { PageIdentity } from '../../src/browser/page-identity.ts'
import { MAILBOX_ROTATE_MS } from '../../src/identity/hosted-agent.ts'
import { ManualClock } from '../../src/platform/clock.ts'
import { seededRandom } from '../../src/platform/random.ts'
import { bytesCodec, Store } from '../../src/store/store.ts'

const AGENT = { name: 'page', description: '' }
let seed = 0

function newPage() {
  const clock = new ManualClock()
  const store = new Store(new MemoryLevel<string, Uint8Array>(), { clock })
  /** a start of the page: what it draws is never the same */
  const open = () => PageIdentity.open({ store, crypto: nobleCrypto, clock, random: seededRandom(seed++) }, AGENT)
  return { clock, store, open }
}

describe('the identity of a page', () => {
  it('is made at the first start and is the same at every other', async () => {
    const { open } = newPage()
    const [first, again] = [await open(), await open()]
    expect(again.agent.did).toBe(first.agent.did)
    expect(again.key.peer).toBe(first.key.peer)
    expect(toHex(again.agent.mailboxKey)).toBe(toHex(first.agent.mailboxKey))
    expect((await newPage().open()).agent.did).not.toBe(first.agent.did)
  })

  it('has a PeerId that is no key of its agent', async () => {
    const { agent, key } = await newPage().open()
    expect(toHex(key.seed)).not.toBe(toHex(agent.record().seed))
  })

  it('takes another mailbox key every week, has it on disk by then, and still opens what was sealed to the last', async () => {
    const { clock, open } = newPage()
    const page = await open()
    const before = page.agent.mailboxKey
    expect(await page.rotateMailboxKey()).toBe(false)
    clock.advance(MAILBOX_ROTATE_MS)
    expect(await page.rotateMailboxKey()).toBe(true)
    expect(toHex(page.agent.mailboxKey)).not.toBe(toHex(before))
    const again = await open()
    expect(toHex(again.agent.mailboxKey)).toBe(toHex(page.agent.mailboxKey))
    expect(again.agent.mailboxSecret(toHex(mailboxKid(nobleCrypto, before)))).toBeDefined()
  })

  it('[F100] is never replaced where it cannot be read', async () => {
    const { store, open } = newPage()
    const { did } = (await open()).agent
    const table = store.table('page-identity', bytesCodec)
    const whole = (await table.get('page')) as Uint8Array
    for (const damaged of [whole.subarray(0, -1), Uint8Array.of(0xa0), new Uint8Array(0)]) {
      await store.commit([table.put('page', damaged)])
      await expect(open()).rejects.toMatchObject({ code: 'IDENTITY_INVALID', kind: 'storage', field: 'store' })
      expect(toHex((await table.get('page')) as Uint8Array)).toBe(toHex(damaged))
    }
    await store.commit([table.put('page', whole)])
    expect((await open()).agent.did).toBe(did)
  })

  it('promises no key that could not be stored', async () => {
    const { clock, store, open } = newPage()
    const page = await open()
    const before = toHex(page.agent.mailboxKey)
    clock.advance(MAILBOX_ROTATE_MS)
    await store.close()
    await expect(page.rotateMailboxKey()).rejects.toMatchObject({ code: 'STORE_CLOSED' })
    expect(toHex(page.agent.mailboxKey)).toBe(before)
  })
})
