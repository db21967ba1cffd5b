import { describe, expect, it } from 'vitest'
import { parseSpaceName } from '../../protocol/discovery/names.ts'
import { eidFromDid } from '../../protocol/identity/eid.ts'
import { errorJson } from '../../src/api/error-json.ts'
import { todoUnknown } from '../../src/tasks/todo-errors.ts'

const thrownBy = (work: () => unknown): unknown => {
  try {
    return work()
  } catch (error) {
    return error
  }
}

describe('an error of the control API', () => {
  it.each([
    ['a did of another method', 'did:web:example.net', { name: 'org.agentnet/energy@1', member: 'did:web:example.net' }, 'member'],
    ['a did that is cut', 'did:key:z6Mk', { agent: 'alice', to: 'did:key:z6Mk' }, 'to'],
    ['one of several', 'did:key:z!', { members: ['alice', 'did:key:z!'] }, 'members[1]'],
    ['a deeper one', 'did:key:zz', { point: { did: 'did:key:zz', tag: 't' } }, 'point.did'],
    ['a word that looks like none', 'bob', { agent: 'alice', did: 'bob' }, 'did']
  ])('names field, value and remedy of %s', (_what, did, params, field) => {
    const json = errorJson(
      thrownBy(() => eidFromDid(did)),
      params
    )
    expect(json).toMatchObject({ code: 'DID_INVALID', kind: 'usage', field, value: did, remedy: expect.stringContaining('did:key') })
  })

  it('names a space name that is none, and a pin that is none', () => {
    const name = 'Org.Agentnet/energy@1'
    expect(
      errorJson(
        thrownBy(() => parseSpaceName(name)),
        { name }
      )
    ).toMatchObject({ code: 'NAME_INVALID', field: 'name', value: name, remedy: expect.stringContaining('topic@version') })
    const pinned = 'org.agentnet/energy@1#did:key:zz'
    const json = errorJson(
      thrownBy(() => parseSpaceName(pinned)),
      { name: pinned }
    )
    expect(json).toMatchObject({ code: 'DID_INVALID', field: 'name', value: pinned })
  })

  it('blames no parameter for what a peer sent', () => {
    const json = errorJson(
      thrownBy(() => eidFromDid('did:key:zz')),
      { agent: 'alice', limit: 5 }
    )
    expect(json.field).toBeUndefined()
    expect(json.value).toBeUndefined()
  })

  it('says what to do about a task that is not there', () => {
    expect(errorJson(todoUnknown('x'))).toMatchObject({ field: 'id', value: 'x', remedy: expect.stringContaining('rookery approve') })
  })
})
