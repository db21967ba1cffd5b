// Talks to the node: signs in, calls, follows what happens. The token stays in this tab's session storage and travels in one header.

const TOKEN = 'rookery-token'
const SILENT_MS_MAX = 15_000
const RETRY_MS = [500, 1_000, 2_000, 5_000, 10_000]

let token = sessionStorage.getItem(TOKEN) ?? undefined

/** What the node refused, in its words. */
export class Refused extends Error {
  constructor({ code, message, remedy }, status) {
    super(message)
    this.code = code
    this.remedy = remedy
    this.status = status
  }
}

/** Takes a one-time code out of the address, where it would stay in the history, and trades it for a token. */
export async function signIn() {
  const code = /^#([\w-]{43})$/.exec(location.hash)?.[1]
  if (code === undefined) return token !== undefined
  history.replaceState(null, '', `${location.pathname}#/overview`)
  const answer = await post('sign-in', { code })
  token = answer.token
  sessionStorage.setItem(TOKEN, token)
  return true
}

export async function signOut() {
  const leaving = post('sign-out', {})
  forget()
  await leaving.catch(() => {})
}

export function forget() {
  token = undefined
  sessionStorage.removeItem(TOKEN)
}

export async function call(method, params) {
  return (await post('call', { method, params })).result
}

async function send(path, body, signal) {
  const response = await fetch(`/dashboard/api/${path}`, {
    method: 'POST',
    credentials: 'omit',
    cache: 'no-store',
    redirect: 'error',
    headers: { 'content-type': 'application/json', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal })
  })
  if (response.ok) return response
  const told = await response.json().catch(() => undefined)
  throw new Refused(told?.error ?? { code: 'REFUSED', message: `the node answered ${response.status}` }, response.status)
}

async function post(path, body) {
  return await (await send(path, body)).json()
}

/**
 * Follows the node for as long as the page is looked at. After a loss it comes again, and names what it knows, so that only the rest is sent.
 * @param {(line: Record<string, any>) => void} onLine
 * @param {(state: 'connecting' | 'live' | 'lost' | 'signed-out', why?: string) => void} onState
 */
export function follow(onLine, onState) {
  const known = { epoch: undefined, sections: {}, tasksRev: undefined, logSeq: undefined }
  let abort
  let failures = 0
  let timer
  let phase = 'waits' // or `runs`, or `over`

  const take = (line) => {
    if (line.hello !== undefined && line.hello.epoch !== known.epoch) {
      Object.assign(known, { epoch: line.hello.epoch, sections: {}, tasksRev: undefined, logSeq: undefined })
      onLine({ restarted: true })
    }
    if (line.section !== undefined) known.sections[line.section] = line.version
    if (line.tasks !== undefined) known.tasksRev = line.tasks.rev
    if (line.logs?.length > 0) known.logSeq = line.logs.at(-1).seq
    onLine(line)
  }

  const run = async () => {
    phase = 'runs'
    abort = new AbortController()
    const { signal } = abort
    let silence
    const heard = () => {
      clearTimeout(silence)
      silence = setTimeout(() => abort.abort(new Error('the node is silent')), SILENT_MS_MAX)
    }
    try {
      heard()
      const response = await send('stream', known, signal)
      failures = 0
      onState('live')
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
      for (let rest = '', part = await reader.read(); !part.done; part = await reader.read()) {
        heard()
        const lines = (rest + part.value).split('\n')
        rest = lines.pop()
        for (const line of lines) take(JSON.parse(line))
      }
      onState('lost', 'the node ended the connection')
    } catch (error) {
      if (error instanceof Refused && error.status === 401) {
        forget()
        phase = 'over'
        return onState('signed-out')
      }
      onState('lost', error instanceof Refused ? error.message : undefined)
    } finally {
      clearTimeout(silence)
    }
    if (phase === 'over') return
    phase = 'waits'
    if (!document.hidden) again()
  }

  const again = () => {
    clearTimeout(timer)
    timer = setTimeout(run, RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)])
  }

  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer)
    if (document.hidden) timer = setTimeout(() => abort?.abort(), 30_000)
    else if (phase === 'waits') again()
  })
  onState('connecting')
  void run()
  return () => {
    phase = 'over'
    clearTimeout(timer)
    abort?.abort()
  }
}
