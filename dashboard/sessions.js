import { h } from './dom.js'
import { chip, counted, decimal, moment, number, shortName, span } from './format.js'
import { loading } from './overview.js'
import { more } from './trust.js'

export const SESSION_CHIPS = {
  established: ['good', 'live'],
  disconnected: ['warn', 'disconnected'],
  closing: ['idle', 'closing'],
  closed: ['idle', 'closed']
}

export function sessions({ sessions: held }, page, ui) {
  if (held === undefined) return [h('h1', null, 'Sessions'), loading()]
  const now = page.now()
  return [
    h('h1', null, 'Sessions'),
    held.total === 0
      ? h(
          'p',
          { class: 'empty' },
          'No session is open. One opens when an agent of this node talks to one of another: ',
          h('code', null, 'rookery session open DID'),
          '.'
        )
      : h(
          'p',
          { class: 'muted' },
          'A session outlives its connection: both sides know by their vectors what the other has, and go on from there.'
        ),
    h(
      'ul',
      { class: 'sessions' },
      held.sessions.map((one) => sessionOf(one, page, ui, now))
    ),
    more(held.total - held.sessions.length)
  ]
}

function sessionOf(one, page, ui, now) {
  const isOpen = ui.open === one.id
  const id = `session-${one.id}`
  const toggle = () => {
    ui.open = isOpen ? undefined : one.id
    ui.details = undefined
    page.redraw()
    if (!isOpen) void load(one, page, ui)
  }
  return h(
    'li',
    { class: 'session', key: one.id },
    h(
      'button',
      { type: 'button', class: 'session-head', 'aria-expanded': String(isOpen), 'aria-controls': id, onclick: toggle },
      h(
        'span',
        { class: 'session-who' },
        shortName(one.local, 10, 4),
        h('span', { class: 'arrow', 'aria-label': 'with' }, ' ⇄ '),
        shortName(one.remote, 10, 4)
      ),
      chip(...(SESSION_CHIPS[one.state] ?? ['idle', one.state])),
      h(
        'span',
        { class: 'session-figures' },
        h('span', null, h('span', { class: 'muted' }, 'sent '), number(one.txSeq)),
        h('span', null, h('span', { class: 'muted' }, 'received '), number(one.rxSeq)),
        h('span', null, h('span', { class: 'muted' }, 'open '), number(one.unacked))
      ),
      h('span', { class: 'muted nowrap' }, one.transport === '' ? '—' : one.transport),
      h('span', { class: 'muted nowrap session-time' }, moment(one.activeAtMs, now))
    ),
    h('div', { id, class: 'session-body', hidden: !isOpen }, isOpen ? details(one, page, ui, now) : undefined)
  )
}

/** How far the session is: what is told of it in full is read again when this has changed. */
const standing = (one) => `${one.state} ${one.txSeq} ${one.rxSeq} ${one.unacked}`

async function load(one, page, ui) {
  ui.loading = true
  ui.loadedAt = standing(one)
  const result = await page.act('session.show', { id: one.id })
  ui.loading = false
  if (ui.open !== one.id) return
  if (result === undefined) ui.open = undefined
  ui.details = result
  page.redraw()
}

function details(one, page, ui, now) {
  const full = ui.details
  if (full === undefined) return h('p', { class: 'muted' }, 'Asking the session…')
  if (!ui.loading && ui.loadedAt !== standing(one)) void load(one, page, ui)
  const top = Math.max(Number(full.vectors.tx.seq), Number(full.vectors.rx.seq), 1)
  return [
    h(
      'div',
      { class: 'vectors', role: 'group', 'aria-label': 'Vectors' },
      vector('Sent', full.vectors.tx, top, 'info'),
      vector('Acknowledged', full.vectors.acked, top, 'good'),
      vector('Received', full.vectors.rx, top, 'accent')
    ),
    h(
      'dl',
      { class: 'facts two' },
      [
        ['Session', h('code', { class: 'wrap' }, full.id)],
        ['Ours', shortName(full.local, 24, 8)],
        ['Theirs', shortName(full.remote, 24, 8)],
        ['Address', full.remoteAddr === '' ? '—' : h('code', { class: 'wrap' }, full.remoteAddr)],
        ['Round trip', full.rttMs === undefined ? 'no connection' : `${decimal(full.rttMs)} ms`],
        [
          'Opened',
          h(
            'span',
            null,
            moment(full.openedAtMs, now),
            `, ${full.role === 'initiator' ? 'by us' : 'by them'}, in ${decimal(full.handshakeMs)} ms`
          )
        ],
        ['Taken up again', counted(full.resumes, 'time')],
        [
          'Connection',
          full.epoch === undefined
            ? 'none'
            : `${span(full.epoch.ageMs)} old, ${counted(full.epoch.streams, 'stream')}, keys of generation ${full.epoch.keyGeneration}`
        ],
        ...(full.lastLoss === undefined ? [] : [['Last loss', full.lastLoss]]),
        [
          'Contract',
          full.contract === undefined
            ? 'none'
            : h(
                'code',
                { class: 'wrap' },
                Object.entries(full.contract.usage)
                  .map(([name, value]) => `${name} ${typeof value === 'object' ? JSON.stringify(value) : value}`)
                  .join(', ')
              )
        ]
      ].map(([name, value]) => h('div', { key: name }, h('dt', null, name), h('dd', null, value)))
    ),
    full.channels.length === 0
      ? undefined
      : h(
          'div',
          { class: 'scroll' },
          h(
            'table',
            { class: 'figures' },
            h('caption', null, 'Channels'),
            h(
              'thead',
              null,
              h(
                'tr',
                null,
                ['Channel', 'Sent', 'Received', 'Not acknowledged', 'Bytes waiting'].map((text) => h('th', { scope: 'col' }, text))
              )
            ),
            h(
              'tbody',
              null,
              full.channels
                .slice(0, 64)
                .map((ch) =>
                  h(
                    'tr',
                    { key: ch.channel },
                    h('th', { scope: 'row' }, ch.channel),
                    h('td', null, number(ch.sent)),
                    h('td', null, number(ch.received)),
                    h('td', null, number(ch.unacked)),
                    h('td', null, number(ch.waitingBytes))
                  )
                )
            )
          )
        ),
    h('div', { class: 'actions' }, h('button', { type: 'button', onclick: () => load(one, page, ui) }, 'Read again'))
  ]
}

function vector(name, { seq, hash }, top, tone) {
  return h(
    'div',
    { class: 'vector', key: name },
    h('span', { class: 'vector-name' }, name),
    h('strong', null, number(seq)),
    h('div', { class: 'meter-track', 'aria-hidden': 'true' }, h('div', { class: `meter-fill ${tone}`, 'width-share': Number(seq) / top })),
    h('code', { class: 'under', title: hash }, `chain ${hash.slice(0, 16)}…`)
  )
}
