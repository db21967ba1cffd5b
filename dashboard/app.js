// The page: what is known, which view shows it, and what is said to whoever listens instead of looking.

import { call, follow, forget, Refused, signIn, signOut } from './client.js'
import { h, patch } from './dom.js'
import { counted, needsOwner } from './format.js'
import { logs, takeLogs } from './logs.js'
import { mail } from './mail.js'
import { network } from './network.js'
import { overview } from './overview.js'
import { sessions } from './sessions.js'
import { takeTasks, tasks } from './tasks.js'
import { trust } from './trust.js'

const VIEWS = [
  { name: 'overview', title: 'Overview', show: overview },
  {
    name: 'tasks',
    title: 'Tasks',
    show: tasks,
    badge: (s) => [...s.tasks.values()].filter(needsOwner).length
  },
  { name: 'network', title: 'Network', show: network },
  { name: 'sessions', title: 'Sessions', show: sessions },
  { name: 'mail', title: 'Queues & outbox', show: mail },
  { name: 'trust', title: 'Grants & friends', show: trust, badge: (s) => s.trust?.waiting ?? 0 },
  { name: 'logs', title: 'Logs', show: logs }
]
const VITALS_MAX = 120

const byId = (id) => document.getElementById(id)
const fresh = () => ({ tasks: new Map(), counts: {}, logs: [], vitals: [], logsMissed: 0 })
let state = { connection: 'connecting', skewMs: 0, ...fresh() }
/** what a view remembers of its own: filters, opened rows */
const ui = Object.fromEntries(VIEWS.map(({ name }) => [name, {}]))
let view = VIEWS[0]

/** What views are given beside the state. */
const page = {
  now: () => Date.now() + state.skewMs,
  redraw: () => draw(),
  call,
  toast,
  announce,
  /** Does something on the node, and says what became of it. @returns its result, undefined where it was refused */
  async act(method, params, done) {
    try {
      const result = await call(method, params)
      if (done !== undefined) toast(done)
      return result ?? {}
    } catch (error) {
      toast(
        error instanceof Refused
          ? `${error.message}${error.remedy === undefined ? '' : ` — ${error.remedy}`}`
          : 'The node cannot be reached.',
        'bad'
      )
      if (error instanceof Refused && error.status === 401) signedOut()
      return undefined
    }
  },
  /** Asks before what cannot be undone. @returns whether to go on */
  confirm(title, text, yes) {
    return openDialog(
      title,
      [h('p', null, text)],
      [
        { word: 'Cancel', value: 'no', tone: 'quiet' },
        { word: yes, value: 'yes', tone: 'danger' }
      ]
    ).then((value) => value === 'yes')
  },
  /** Shows something above the page. */
  show: (title, body) => openDialog(title, body, [{ word: 'Close', value: 'no', tone: 'quiet' }])
}

let drawing = false
function draw() {
  if (drawing) return
  drawing = true
  requestAnimationFrame(() => {
    drawing = false
    drawNow()
  })
}

function drawNow() {
  const [tone, word] = {
    connecting: ['idle', 'connecting'],
    live: ['good', 'live'],
    lost: ['warn', 'reconnecting'],
    'signed-out': ['idle', 'signed out']
  }[state.connection]
  const connection = byId('connection')
  connection.className = `chip ${tone}`
  patch(connection, word)
  const isOut = state.connection === 'signed-out'
  byId('sign-out').hidden = isOut
  patch(byId('node-name'), state.status === undefined ? '' : `…${state.status.node.peer.slice(-6)}`)
  byId('node-name').title = state.status?.node.peer ?? ''
  patch(
    byId('views'),
    VIEWS.map(({ name, title, badge }) => {
      const count = isOut ? 0 : (badge?.(state) ?? 0)
      return h(
        'li',
        { key: name },
        h(
          'a',
          { href: `#/${name}`, 'aria-current': name === view.name ? 'page' : undefined },
          title,
          count > 0 ? h('span', { class: 'badge' }, String(count), h('span', { class: 'unseen' }, ' to answer')) : undefined
        )
      )
    })
  )
  patch(
    byId('main'),
    isOut ? signedOutView() : h('div', { key: view.name, class: `view view-${view.name}` }, view.show(state, page, ui[view.name]))
  )
}

function signedOutView() {
  return h(
    'section',
    { key: 'signed-out', class: 'empty lone' },
    h('h1', null, 'You are signed out'),
    h('p', null, 'This page shows nothing to strangers. On the machine that runs the node, type'),
    h('p', null, h('code', { class: 'command' }, 'rookery dashboard')),
    h('p', null, 'and open the address that it prints. It works once, within two minutes.')
  )
}

function signedOut() {
  forget()
  state = { connection: 'signed-out', skewMs: 0, ...fresh() }
  draw()
}

function take(line) {
  if (line.restarted) state = { ...state, ...fresh(), vitals: [] }
  if (line.hello !== undefined) {
    state.skewMs = line.hello.nowMs - Date.now()
    state.logLevels = line.hello.logs
  }
  if (line.section !== undefined) {
    tellChanges(line.section, line.data)
    state[line.section] = line.data
  }
  if (line.vitals !== undefined) {
    state.vitals.push(line.vitals)
    if (state.vitals.length > VITALS_MAX) state.vitals.shift()
  }
  if (line.tasks !== undefined) takeTasks(state, line.tasks, page)
  if (line.logs !== undefined) takeLogs(state, line, ui.logs)
  draw()
}

function tellChanges(section, data) {
  const before = state[section]
  if (before === undefined) return
  if (section === 'trust' && data.waiting > before.waiting) announce(`${counted(data.waiting, 'friend request')} for you to answer`)
  if (section === 'status' && data.network !== before.network)
    announce(data.network === 'isolated' ? 'No peer is connected' : 'Connected to the network')
}

// What is said to screen readers: gathered, so that a busy node does not talk without end.
let saying = []
let quietUntil = 0
let sayTimer
function announce(text) {
  saying = [...saying.filter((one) => one !== text), text].slice(-3)
  clearTimeout(sayTimer)
  sayTimer = setTimeout(
    () => {
      patch(byId('told'), saying.join('. '))
      saying = []
      quietUntil = performance.now() + 4_000
    },
    Math.max(200, quietUntil - performance.now())
  )
}

const toasts = []
function toast(text, tone = 'good') {
  const one = { key: `${performance.now()}`, text, tone }
  toasts.push(one)
  if (toasts.length > 3) toasts.shift()
  const show = () =>
    patch(
      byId('toasts'),
      toasts.map(({ key, text, tone }) => h('p', { key, class: `toast ${tone}`, role: tone === 'bad' ? 'alert' : 'status' }, text))
    )
  show()
  setTimeout(
    () => {
      toasts.splice(toasts.indexOf(one), toasts.includes(one) ? 1 : 0)
      show()
    },
    tone === 'bad' ? 10_000 : 5_000
  )
}

function openDialog(title, body, buttons) {
  const dialog = byId('dialog')
  return new Promise((resolve) => {
    patch(
      dialog,
      h('h2', { id: 'dialog-title' }, title),
      h('div', { class: 'dialog-body', tabindex: '0' }, body),
      h(
        'div',
        { class: 'actions' },
        buttons.map(({ word, value, tone }) =>
          h('button', { key: value, type: 'button', class: tone, onclick: () => dialog.close(value) }, word)
        )
      )
    )
    dialog.returnValue = 'no'
    dialog.onclose = () => resolve(dialog.returnValue)
    if (dialog.open) dialog.close('no')
    dialog.showModal()
    dialog.querySelector('.actions button:last-child')?.focus()
  })
}

function route() {
  const name = /^#\/([a-z]+)/.exec(location.hash)?.[1]
  const next = VIEWS.find((one) => one.name === name) ?? VIEWS[0]
  const moved = next !== view
  view = next
  document.title = `${view.title} · Rookery`
  drawNow()
  document.querySelector('.side [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  if (!moved) return
  scrollTo(0, 0)
  byId('main').focus({ preventScroll: true })
}

function setTheme(theme) {
  if (theme === 'auto') document.documentElement.removeAttribute('data-theme')
  else document.documentElement.setAttribute('data-theme', theme)
  localStorage.setItem('rookery-theme', theme)
  byId('theme').value = theme
}

async function start() {
  setTheme(localStorage.getItem('rookery-theme') ?? 'auto')
  byId('theme').onchange = ({ target }) => setTheme(target.value)
  byId('sign-out').onclick = async () => {
    stop?.()
    await signOut()
    signedOut()
  }
  let stop
  let isIn = false
  try {
    isIn = await signIn()
  } catch (error) {
    toast(error instanceof Refused ? `${error.message}: ${error.remedy ?? ''}` : 'The node cannot be reached.', 'bad')
  }
  addEventListener('hashchange', () => {
    // a fresh address opened in a page that is open already
    if (/^#[\w-]{43}$/.test(location.hash)) location.reload()
    else route()
  })
  route()
  if (!isIn) return signedOut()
  setInterval(draw, 5_000) // ages go on
  stop = follow(take, (connection, why) => {
    if (connection === 'signed-out') return signedOut()
    if (connection === 'lost' && state.connection === 'live')
      announce(`The node cannot be reached${why === undefined ? '' : `: ${why}`}; trying again`)
    state.connection = connection
    draw()
  })
}

void start()
