import type { IncomingMessage, ServerResponse } from 'node:http'
import { controlHandlers } from '../api/control-handlers.ts'
import type { ControlContext, ControlHandlers } from '../api/control-server.ts'
import { errorJson } from '../api/error-json.ts'
import { type ControlMethod, parseControlCall } from '../api/methods.ts'
import { RookeryError } from '../errors.ts'
import { type OpsRoute, sendJson } from '../ops/ops-server.ts'
import type { Vitals } from '../ops/vitals.ts'
import type { LogRing } from '../platform/log-ring.ts'
import type { Logger } from '../platform/logger.ts'
import type { RookeryNode } from '../rookery-node.ts'
import { Feed, type Known } from './feed.ts'
import { checkOwnPage, checkSignedIn, readJson, setPageHeaders, statusOf } from './guards.ts'
import { Sections } from './sections.ts'
import type { SignIns } from './sign-ins.ts'
import { webFiles } from './web-files.ts'

/** What the page may ask of the control API; all else stays with the command line. */
const METHODS: ReadonlySet<ControlMethod> = new Set([
  'session.show',
  'find',
  'friends.approve',
  'friends.deny',
  'friends.remove',
  'grant.revoke',
  'inbox.approve',
  'inbox.show',
  'inbox.retry',
  'outbox.retry',
  'outbox.drop',
  'sleep',
  'wake'
] satisfies ControlMethod[])
const CALL_MS_MAX = 60_000

export interface DashboardParts {
  signIns: SignIns
  vitals: Vitals
  /** the log of this process; absent where it is kept elsewhere */
  logs?: LogRing
}

/**
 * The dashboard under `/dashboard` of the operator's server. The page and its files are the same for everybody and tell nothing; what tells something
 * is posted for, with the page's token in the Authorization header, so that no cookie and no address carries it.
 */
export function dashboardRoutes(node: RookeryNode, { signIns, vitals, logs }: DashboardParts): OpsRoute[] {
  const handlers = controlHandlers(node, { vitals })
  const feed = new Feed(node, { sections: new Sections(node, handlers), vitals, logs })
  const logger = node.logger.child('dashboard')
  const files = webFiles().map(
    ({ path, type, body }): OpsRoute => ({
      method: 'GET',
      path,
      handle(_req, res) {
        setPageHeaders(res)
        res.writeHead(200, { 'Content-Type': type, 'Content-Length': body.length })
        res.end(body)
      }
    })
  )
  const signIn = post('/dashboard/api/sign-in', logger, async (req, res) => {
    const { code } = await readJson(req)
    const token = typeof code === 'string' ? signIns.redeem(code) : undefined
    if (token === undefined) throw codeInvalid()
    logger.info({}, 'a dashboard page was signed in')
    sendJson(res, 200, { token })
  })
  const signOut = post('/dashboard/api/sign-out', logger, async (req, res) => {
    signIns.end(checkSignedIn(req, signIns))
    sendJson(res, 200, {})
  })
  const call = post('/dashboard/api/call', logger, async (req, res) => {
    checkSignedIn(req, signIns)
    const result = await callMethod(handlers, await readJson(req), res)
    sendJson(res, 200, { result: result ?? null })
    feed.changed()
  })
  const stream = post('/dashboard/api/stream', logger, async (req, res) => {
    checkSignedIn(req, signIns)
    feed.watch(res, knownOf(await readJson(req)))
  })
  return [...files, signIn, signOut, call, stream]
}

function post(path: string, logger: Logger, handle: (req: IncomingMessage, res: ServerResponse) => Promise<void>): OpsRoute {
  return {
    method: 'POST',
    path,
    async handle(req, res) {
      setPageHeaders(res)
      try {
        checkOwnPage(req)
        await handle(req, res)
      } catch (error) {
        const json = errorJson(error, undefined)
        if (json.kind === 'internal') logger.error({ err: error }, 'a call of the dashboard failed')
        if (res.headersSent) return void res.destroy()
        if (!req.complete) res.setHeader('Connection', 'close')
        sendJson(res, statusOf(json.code), { error: json })
      }
    }
  }
}

async function callMethod(handlers: ControlHandlers, body: Record<string, unknown>, res: ServerResponse): Promise<unknown> {
  const { method, params } = parseControlCall(body.method, body.params)
  if (!METHODS.has(method)) {
    throw new RookeryError('METHOD_REFUSED', `the dashboard does not ask for ${method}`, {
      kind: 'refused',
      field: 'method',
      value: method,
      remedy: 'use the command line'
    })
  }
  const gone = new AbortController()
  res.on('close', () => gone.abort(new DOMException('the page went away', 'AbortError')))
  const context: ControlContext = {
    signal: AbortSignal.any([gone.signal, AbortSignal.timeout(CALL_MS_MAX)]),
    progress() {},
    event() {},
    async emit() {},
    afterAnswer() {}
  }
  const handler = handlers[method] as (params: unknown, context: ControlContext) => Promise<unknown>
  return await handler(params, context)
}

/** What a page says it knows; what cannot be true is taken as nothing known. */
function knownOf({ epoch, sections, tasksRev, logSeq }: Record<string, unknown>): Known {
  const isMap = typeof sections === 'object' && sections !== null && !Array.isArray(sections)
  const entries = isMap ? Object.entries(sections).slice(0, 16) : []
  const isCount = (value: unknown): value is number => typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
  return {
    ...(typeof epoch === 'string' ? { epoch } : {}),
    sections: Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string')),
    ...(isCount(tasksRev) ? { tasksRev } : {}),
    ...(isCount(logSeq) ? { logSeq } : {})
  }
}

function codeInvalid(): RookeryError {
  return new RookeryError('CODE_INVALID', 'this address was used already, or is too old', {
    kind: 'refused',
    field: 'code',
    remedy: 'run `rookery dashboard` again'
  })
}
