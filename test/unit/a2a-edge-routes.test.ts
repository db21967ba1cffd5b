import type { IncomingMessage } from 'node:http'
import { describe, expect, it } from 'vitest'
import { EdgeRoutes, type Route } from '../../src/a2a/edge-routes.ts'

const handle = async () => undefined
const route = (method: Route['method'], path: string): Route => ({ method, path, handle })
const ROUTES = [route('POST', '/'), route('GET', '/tasks'), route('GET', '/tasks/{id}'), route('POST', '/tasks/{id}:cancel')]
const ask = (method: string, url: string) => new EdgeRoutes(ROUTES).find({ method, url } as IncomingMessage)

describe('the routes of the edge', () => {
  it('serves every operation for the default agent and for the one that the path names', () => {
    expect(ask('POST', '/')).toMatchObject({ route: ROUTES[0], address: { did: undefined } })
    expect(ask('POST', '/agents/did:key:z6Mk')).toMatchObject({ route: ROUTES[0], address: { did: 'did:key:z6Mk' } })
    expect(ask('GET', '/agents/did%3Akey%3Az6Mk/tasks/?pageSize=3')).toMatchObject({
      route: ROUTES[1],
      address: { did: 'did:key:z6Mk' },
      search: '?pageSize=3'
    })
    expect(ask('POST', 'http://127.0.0.1:4200/agents/did:key:z6Mk/tasks/t-1:cancel?x=1')).toMatchObject({
      route: ROUTES[3],
      address: { params: { id: 't-1' } },
      search: '?x=1'
    })
  })

  it('keeps the verb behind a colon apart from the id, and HEAD with GET', () => {
    expect(ask('HEAD', '/tasks/t%2F1')).toMatchObject({ route: ROUTES[2], address: { params: { id: 't/1' } } })
    expect(ask('GET', '/tasks/t-1:cancel')).toBeUndefined()
    expect(ask('PUT', '/tasks')).toBeUndefined()
    expect(ask('GET', '/tasks/a/b')).toBeUndefined()
  })

  it('refuses what is not percent-encoded UTF-8', () => {
    expect(() => ask('GET', '/tasks/%ff')).toThrow(expect.objectContaining({ reason: 'INVALID_REQUEST' }))
    expect(() => ask('POST', '/agents/%zz')).toThrow(expect.objectContaining({ reason: 'INVALID_REQUEST' }))
  })
})
