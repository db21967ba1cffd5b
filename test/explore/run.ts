// before any module under test
import './open-private.ts'
import { refused, scriptOptions } from '../support/script-options.ts'
import type { SessionBug } from '../support/session-model.ts'
import type { Exploration, Space } from './explore.ts'
import type { HandshakeBounds, HandshakeBug } from './handshake-space.ts'
import type { SessionBounds } from './session-space.ts'

const { explore } = await import('./explore.ts')
const { handshakeSpace } = await import('./handshake-space.ts')
const { sessionSpace } = await import('./session-space.ts')

const HELP = `Visits every state that two nodes can come to, and judges each: the handshake, and the reconciliation of transactions.

  npm run explore -- [--small] [--space handshake|session] [--states <n>] [--mutants] [--json]

  --small    the bounds of the tests: seconds in place of minutes
  --space    one of the two; both where it is left out
  --states   visit at most so many
  --mutants  make known mistakes on purpose: each must be found
  --json     one line of JSON at the end instead of a table

Ends with 1 where a promise is broken (or, with --mutants, where a mistake was not found). The shortest way there is printed.
`

const SESSION_SMALL: SessionBounds = { a: [1], b: [], crashes: 1, losses: 0, doubles: 1 }
/** Three transactions and one crash of each side; then frames that are lost and come twice. */
const SESSION: readonly SessionBounds[] = [
  { a: [1], b: [1], crashes: 0, losses: 1, doubles: 1 },
  { a: [1, 2], b: [1], crashes: 1, losses: 0, doubles: 0 }
]
const HANDSHAKE_SMALL: HandshakeBounds = { crashes: 1, drops: 0, doubles: 0, minutes: 0, turns: 0 }
/** Time that outlives cookies; load that comes and goes; crashes of both sides on a bad wire. */
const HANDSHAKE: readonly HandshakeBounds[] = [
  { crashes: 0, drops: 0, doubles: 1, minutes: 3, turns: 0 },
  { crashes: 1, drops: 0, doubles: 0, minutes: 1, turns: 2 },
  { crashes: 1, drops: 1, doubles: 1, minutes: 0, turns: 0 }
]

const SESSION_BUGS = [
  'acks before the effect is on disk',
  'writes an effect without its position',
  'forgets positions at a restart',
  'forgets its journal at a restart',
  'sends before it journals',
  'forgets what is in hand when an epoch ends'
] as const satisfies readonly SessionBug[]
const HANDSHAKE_BUGS: readonly (readonly [HandshakeBug, HandshakeBounds])[] = [
  ['takes an ACK twice', { crashes: 0, drops: 0, doubles: 1, minutes: 0, turns: 0 }],
  ['takes an old cookie', { crashes: 0, drops: 0, doubles: 0, minutes: 3, turns: 0 }],
  ['takes a cookie after a restart', { crashes: 1, drops: 0, doubles: 1, minutes: 0, turns: 0 }]
]

interface Row extends Exploration {
  readonly space: string
  readonly bounds: object
  readonly mutant?: string
  readonly seconds: number
}

const { values } = scriptOptions(HELP, {
  small: { type: 'boolean', default: false },
  space: { type: 'string' },
  states: { type: 'string' },
  mutants: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false }
})
const usage = (message: string): never => refused(message, HELP)
const { space: wanted } = values
if (wanted !== undefined && wanted !== 'handshake' && wanted !== 'session') usage(`--space is handshake or session, not "${wanted}"`)
const statesMax = values.states === undefined ? Number.POSITIVE_INFINITY : Number(values.states)
if (!(statesMax >= 1)) usage(`--states is a number from 1, not "${values.states}"`)
const rows: Row[] = []

function visit<State>(name: string, bounds: object, space: Space<State>, mutant?: string): void {
  const startMs = performance.now()
  const told = (states: number, transitions: number, waiting: number) => {
    if (process.stderr.isTTY && !values.json)
      process.stderr.write(`\r${name}: ${states} states, ${transitions} transitions, ${waiting} to explore `)
  }
  const found = explore(space, { statesMax, told, order: values.small || values.mutants ? 'near' : 'deep' })
  const row = {
    space: name,
    bounds,
    ...(mutant === undefined ? {} : { mutant }),
    ...found,
    seconds: Number(((performance.now() - startMs) / 1_000).toFixed(1))
  }
  rows.push(row)
  if (!values.json) process.stdout.write(`${process.stderr.isTTY ? '\n' : ''}${lineOf(row)}\n`)
}

function lineOf({ space, bounds, mutant, states, transitions, depth, ends, isWhole, broken, seconds }: Row): string {
  const what = `${space} ${JSON.stringify(bounds)}${mutant === undefined ? '' : `, ${mutant}`}`
  const figures = `${states} states${isWhole || broken !== undefined ? '' : ' (not all)'}, ${transitions} transitions, depth ${depth}, ${ends} ends, ${seconds} s`
  return broken === undefined
    ? `${what}: ${figures}`
    : `${what}: ${figures}\n  ${broken.error}\n  after ${broken.events.join(', ') || 'nothing'}`
}

if (wanted !== 'session') {
  if (!values.mutants) for (const one of values.small ? [HANDSHAKE_SMALL] : HANDSHAKE) visit('handshake', one, handshakeSpace(one))
  else for (const [bug, bounds] of HANDSHAKE_BUGS) visit('handshake', bounds, handshakeSpace(bounds, bug), bug)
}
if (wanted !== 'handshake') {
  if (!values.mutants) for (const one of values.small ? [SESSION_SMALL] : SESSION) visit('session', one, sessionSpace(one))
  else for (const bug of SESSION_BUGS) visit('session', SESSION_SMALL, sessionSpace(SESSION_SMALL, bug), bug)
}
if (values.json) process.stdout.write(`${JSON.stringify(rows)}\n`)
const failed = rows.some(({ broken }) => (broken !== undefined) !== values.mutants)
process.exitCode = failed ? 1 : 0
