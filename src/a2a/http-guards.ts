import type { NextFunction, Request, RequestHandler, Response } from 'express'
import express from 'express'
import { A2aError } from './a2a-error.ts'
import { errorResponse, type JsonRpcId } from './json-rpc.ts'

const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])

/** Answers with a JSON-RPC error in every case, and with the headers that go with it. */
export function sendError(res: Response, error: A2aError, id: JsonRpcId = null): void {
  if (res.headersSent) return
  if (error.reason === 'UNAUTHENTICATED') res.setHeader('WWW-Authenticate', 'Bearer realm="rookery"')
  if (error.retryAfterSec !== undefined) res.setHeader('Retry-After', String(error.retryAfterSec))
  res.status(error.status).json(errorResponse(id, error))
}

/** The same for the HTTP+JSON binding. */
export function sendRestError(res: Response, error: A2aError): void {
  if (res.headersSent) return
  if (error.reason === 'UNAUTHENTICATED') res.setHeader('WWW-Authenticate', 'Bearer realm="rookery"')
  if (error.retryAfterSec !== undefined) res.setHeader('Retry-After', String(error.retryAfterSec))
  const { status, body } = error.toRest()
  res.status(status).json(body)
}

/** Refuses names that a rebound DNS entry would bring: only loopback names and the node's own public host pass. */
export function hostGuard(publicUrl: () => string | undefined): RequestHandler {
  return (req, res, next) => {
    const name = (req.headers.host ?? '').toLowerCase().replace(/:\d{1,5}$/, '')
    const own = publicUrl()
    if (LOOPBACK_NAMES.has(name) || (own !== undefined && name === new URL(own).hostname)) next()
    else
      sendError(
        res,
        new A2aError('PERMISSION_DENIED', 'this node answers to loopback names and its public host only', { metadata: { field: 'Host' } })
      )
  }
}

export function jsonOnly(req: Request, res: Response, next: NextFunction): void {
  const type = (req.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase()
  if (type === 'application/json') next()
  else
    sendError(
      res,
      new A2aError('CONTENT_TYPE_NOT_SUPPORTED', 'send Content-Type: application/json', { metadata: { field: 'Content-Type' } })
    )
}

const REST_TYPES: readonly unknown[] = ['application/json', 'application/a2a+json']

export function restJsonOnly(req: Request, res: Response, next: NextFunction): void {
  const type = (req.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase()
  if (REST_TYPES.includes(type)) next()
  else {
    const message = 'send Content-Type: application/a2a+json or application/json'
    sendRestError(res, new A2aError('CONTENT_TYPE_NOT_SUPPORTED', message, { metadata: { field: 'Content-Type' } }))
  }
}

/** Reads the whole body as bytes, at most `bodyBytesMax`; what is compressed is refused rather than blown up. */
export function readBody(bodyBytesMax: number): RequestHandler {
  return express.raw({ limit: bodyBytesMax, type: () => true, inflate: false })
}

/** The last handler: whatever went wrong before a route answered becomes JSON, never HTML. */
export function bodyErrors(bodyBytesMax: number) {
  return (err: unknown, _req: Request, res: Response, _next: NextFunction): void => {
    const type = typeof err === 'object' && err !== null && 'type' in err ? String(err.type) : ''
    if (type === 'entity.too.large') {
      // What is left unread would keep the connection busy.
      res.setHeader('Connection', 'close')
      const message = `the body is above ${bodyBytesMax} bytes`
      sendError(res, new A2aError('PAYLOAD_TOO_LARGE', message, { metadata: { bytesMax: String(bodyBytesMax) } }))
    } else if (type === 'encoding.unsupported') {
      sendError(res, new A2aError('CONTENT_TYPE_NOT_SUPPORTED', 'send the body uncompressed', { metadata: { field: 'Content-Encoding' } }))
    } else if (type !== '' || err instanceof URIError) {
      sendError(res, new A2aError('INVALID_REQUEST', 'the request could not be read', { cause: err }))
    } else {
      sendError(res, new A2aError('INTERNAL_ERROR', 'the node failed to handle this request', { cause: err }))
    }
  }
}
