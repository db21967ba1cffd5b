import { h } from './dom.js'
import { ago, bytes, chip, counted, decimal, moment, needsOwner, number, percent, shortName, span, tableOf } from './format.js'

export function overview(state, page) {
  const { status, vitals } = state
  const last = vitals.at(-1)
  if (status === undefined || last === undefined) return [h('h1', null, 'Overview'), loading()]
  const now = page.now()
  const toApprove = [...state.tasks.values()].filter(needsOwner).length
  const { byState } = last.tasks
  return [
    h('h1', null, 'Overview'),
    notices(state, toApprove),
    h(
      'div',
      { class: 'tiles' },
      tile(
        'Network',
        h('span', null, number(last.peers)),
        last.peers === 1 ? 'peer connected' : 'peers connected',
        status.network === 'isolated' ? chip('warn', 'isolated') : chip('good', 'connected'),
        '#/network'
      ),
      tile(
        'Sessions',
        number(last.sessions.live),
        'live',
        last.sessions.disconnected > 0 ? chip('idle', `${number(last.sessions.disconnected)} disconnected`) : undefined,
        '#/sessions'
      ),
      tile(
        'Tasks',
        number(byState.pending + byState.claimed + byState['input-required'] + byState['auth-required']),
        'open',
        h('span', { class: 'muted' }, `${number(rate(vitals, (one) => one.tasks.ended) * 60)} done a minute`),
        '#/tasks'
      ),
      tile(
        'Waiting',
        number(last.queued.messages),
        'in queues',
        last.outbox.waiting > 0
          ? chip('info', `${number(last.outbox.waiting)} in the outbox`)
          : h('span', { class: 'muted' }, 'outbox empty'),
        '#/mail'
      )
    ),
    h('h2', null, 'Agents'),
    status.agents.length === 0
      ? h('p', { class: 'empty' }, 'No agent lives here yet. Make one with ', h('code', null, 'rookery agent add NAME'), '.')
      : agentTable(status.agents, page, now),
    h('h2', null, 'The process'),
    h(
      'div',
      { class: 'tiles small' },
      graphTile(
        'Memory',
        bytes(last.memory.rssBytes),
        `${bytes(last.memory.heapUsedBytes)} of heap in use`,
        vitals.map((one) => one.memory.rssBytes),
        'floor'
      ),
      graphTile(
        'Processor',
        percent(last.cpu),
        'of one core',
        vitals.map((one) => one.cpu)
      ),
      graphTile(
        'Event loop',
        `${decimal(last.eventLoop.p99Ms)} ms`,
        'delay of the slowest 1 %',
        vitals.map((one) => one.eventLoop.p99Ms)
      ),
      last.sent === undefined
        ? undefined
        : graphTile(
            'Sent',
            `${bytes(rate(vitals, (one) => one.sent.bytes))}/s`,
            `${bytes(last.sent.bytes)} since the start`,
            deltas(vitals, (one) => one.sent.bytes)
          )
    ),
    h('h2', null, 'This node'),
    facts(status, last, now)
  ]
}

export const loading = () => h('p', { class: 'empty', key: 'loading' }, 'Reading the node…')

function notices({ status, trust }, toApprove) {
  const all = []
  if (trust?.waiting > 0) all.push(['info', `${counted(trust.waiting, 'friend request')} for you to answer`, '#/trust'])
  if (toApprove > 0) all.push(['info', `${counted(toApprove, 'task')} for you to approve`, '#/tasks'])
  if (status.store.state !== 'ok') all.push(['bad', `The disk is ${status.store.state}: ${status.store.reason ?? 'nothing new is taken'}`])
  if (status.drainHeld !== undefined) all.push(['warn', `Queues are held: ${status.drainHeld}`])
  for (const { name, handlerFault } of status.agents)
    if (handlerFault !== undefined) all.push(['bad', `The handler of ${name} is not at work: ${handlerFault.message}`])
  if (all.length === 0) return undefined
  return h(
    'ul',
    { class: 'notices', 'aria-label': 'What needs you' },
    all.map(([tone, text, href]) => h('li', { class: `notice ${tone}` }, text, href === undefined ? undefined : h('a', { href }, 'Look')))
  )
}

function tile(title, figure, noun, below, href) {
  return h(
    'a',
    { class: 'tile', href, key: title },
    h('span', { class: 'tile-title' }, title),
    h('span', { class: 'tile-figure' }, h('strong', null, figure), ' ', noun),
    h('span', { class: 'tile-below' }, below)
  )
}

function graphTile(title, figure, below, values, from = 'zero') {
  return h(
    'div',
    { class: 'tile', key: title },
    h('span', { class: 'tile-title' }, title),
    h('span', { class: 'tile-figure' }, h('strong', null, figure)),
    h('span', { class: 'tile-below muted' }, below),
    spark(values, from)
  )
}

function spark(values, from) {
  const max = Math.max(...values, 1e-9)
  const min = from === 'floor' ? Math.min(...values) * 0.9 : 0
  const x = (i) => (values.length < 2 ? 0 : (i / (values.length - 1)) * 100)
  const y = (value) => 23 - ((value - min) / Math.max(max - min, 1e-9)) * 20
  const points = values.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`)
  return h(
    'svg',
    { class: 'spark', viewBox: '0 0 100 24', preserveAspectRatio: 'none', 'aria-hidden': 'true', focusable: 'false' },
    h('polygon', { points: `0,24 ${points.join(' ')} 100,24` }),
    h('polyline', { points: points.join(' ') })
  )
}

/** A total's rise a second, over the last ten readings. */
export function rate(vitals, read) {
  const last = vitals.at(-1)
  const first = vitals.at(-11) ?? vitals[0]
  if (first === undefined || last === first) return 0
  return Math.max(0, (read(last) - read(first)) / ((last.monotonicMs - first.monotonicMs) / 1000))
}

function deltas(vitals, read) {
  return vitals.slice(1).map((one, i) => Math.max(0, read(one) - read(vitals[i])))
}

export function agentState(agent) {
  if (agent.reachable.now === 'accepts') return chip('good', 'takes work')
  return chip('idle', 'asleep')
}

function agentTable(agents, page, now) {
  const change = (agent, method, done) => page.act(method, { agent: agent.name }, done)
  return tableOf(
    ['Agent', 'State', 'Mode', 'Handler', 'Queue', ''],
    agents.map((agent) => ({
      key: agent.did,
      cells: [
        [agent.name, h('div', { class: 'under' }, shortName(agent.did))],
        [agentState(agent), agent.untilMs === undefined ? undefined : h('div', { class: 'under' }, `for ${span(agent.untilMs - now)}`)],
        agent.mode.replaceAll('_', ' '),
        agent.handlerFault === undefined
          ? h('span', { class: 'clip', title: agent.handler }, agent.handler.split('/').at(-1))
          : chip('bad', 'not at work'),
        queueBar(agent.queue),
        agent.reachable.now === 'asleep' || agent.mode === 'sleep'
          ? h(
              'button',
              {
                type: 'button',
                'aria-label': `Wake ${agent.name}`,
                onclick: () => change(agent, 'wake', `${agent.name} takes work again`)
              },
              'Wake'
            )
          : h(
              'button',
              {
                type: 'button',
                class: 'quiet',
                'aria-label': `Let ${agent.name} sleep`,
                onclick: () => change(agent, 'sleep', `${agent.name} sleeps; what comes is kept`)
              },
              'Sleep'
            )
      ]
    }))
  )
}

export function queueBar({ messages, bytes: size, bounds }) {
  const share = Math.max(messages / bounds.messagesMax, size / bounds.bytesMax)
  return h(
    'div',
    { class: 'meter' },
    h('span', null, `${number(messages)} of ${number(bounds.messagesMax)}`, h('span', { class: 'muted' }, ` · ${bytes(size)}`)),
    h(
      'div',
      { class: 'meter-track', 'aria-hidden': 'true' },
      h('div', { class: `meter-fill${share > 0.8 ? ' high' : ''}`, 'width-share': messages === 0 ? 0 : Math.max(share, 0.015) })
    )
  )
}

function facts(status, last, now) {
  const { node } = status
  const rows = [
    ['PeerId', h('code', { class: 'wrap' }, node.peer)],
    ['Version', `${node.version}, process ${node.pid}`],
    [
      'Running',
      h(
        'span',
        null,
        `for ${span(last.uptimeMs)}`,
        h('span', { class: 'muted' }, ' since '),
        moment(node.startedAtMs, now, (ms) => new Date(ms).toLocaleString('en-GB'))
      )
    ],
    [
      'Addresses',
      status.addresses.length === 0
        ? 'none that others could dial'
        : h(
            'ul',
            { class: 'plain' },
            status.addresses.map((one) => h('li', null, h('code', { class: 'wrap' }, one)))
          )
    ],
    ['A2A', status.http === undefined ? 'off' : h('code', { class: 'wrap' }, status.http.url)],
    ['Disk', status.store.state === 'ok' ? chip('good', 'takes writes') : chip('bad', status.store.state)],
    ['Data', h('code', { class: 'wrap' }, node.dataDir)],
    [
      'Keeps mail for',
      status.keeping.length === 0
        ? 'nobody'
        : h(
            'ul',
            { class: 'plain' },
            status.keeping
              .slice(0, 20)
              .map((one) => h('li', null, shortName(one.did), `: ${counted(one.messages, 'message')}, ${bytes(one.bytes)}`))
          )
    ]
  ]
  if (status.faultyRegistrars.length > 0) {
    rows.push([
      'Faulty registrars',
      h(
        'ul',
        { class: 'plain' },
        status.faultyRegistrars
          .slice(0, 20)
          .map((one) =>
            h('li', null, shortName(one.peer), ` hid ${number(one.hidden)}, invented ${number(one.invented)}, `, ago(one.lastAtMs, now))
          )
      )
    ])
  }
  return h(
    'dl',
    { class: 'facts' },
    rows.map(([name, value]) => h('div', { key: name }, h('dt', null, name), h('dd', null, value)))
  )
}
