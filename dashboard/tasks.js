import { h } from './dom.js'
import { chip, counted, moment, needsOwner, number, shortName } from './format.js'
import { loading } from './overview.js'

/** Cards of one state that are kept in memory and shown. */
const PER_STATE_MAX = 50

const COLUMNS = [
  { name: 'Waiting', states: ['pending'], empty: 'Nothing waits.' },
  { name: 'Working', states: ['claimed'], empty: 'Nothing is being worked on.' },
  { name: 'Needs an answer', states: ['input-required', 'auth-required'], empty: 'No question is open.' },
  { name: 'Done', states: ['done'], empty: 'Nothing has been done yet.' },
  { name: 'Ended otherwise', states: ['failed', 'canceled', 'rejected'], empty: 'Nothing failed.' }
]
const STATE_CHIPS = {
  pending: ['idle', 'waiting'],
  claimed: ['info', 'working'],
  'input-required': ['warn', 'needs input'],
  'auth-required': ['warn', 'needs authorization'],
  done: ['good', 'done'],
  failed: ['bad', 'failed'],
  canceled: ['idle', 'cancelled'],
  rejected: ['bad', 'rejected']
}
const DOORS = {
  'a2a-http': 'A2A over HTTP',
  'a2a-rest': 'A2A REST',
  'a2a-pss': 'a session',
  'asleep-queue': 'the queue',
  library: 'a program here',
  mcp: 'MCP',
  'agent-http': 'HTTP',
  control: 'the command line',
  node: 'the node'
}

/** Takes over a board, or what changed on it. */
export function takeTasks(state, { cards, counts, isWhole }, page) {
  if (isWhole) state.tasks = new Map()
  for (const card of cards) {
    const before = state.tasks.get(card.id)
    if (!isWhole && before?.state !== card.state)
      page.announce(before === undefined ? `New task for ${card.agent}` : `Task of ${card.agent}: ${STATE_CHIPS[card.state][1]}`)
    state.tasks.delete(card.id)
    state.tasks.set(card.id, card)
  }
  state.counts = counts
  const seen = {}
  const newest = [...state.tasks.values()].sort((a, b) => b.changedAtMs - a.changedAtMs)
  for (const card of newest) {
    seen[card.state] = (seen[card.state] ?? 0) + 1
    if (seen[card.state] > PER_STATE_MAX) state.tasks.delete(card.id)
  }
}

export function tasks(state, page, ui) {
  if (state.status === undefined) return [h('h1', null, 'Tasks'), loading()]
  const agents = state.status.agents.map((one) => one.name)
  const cards = [...state.tasks.values()]
    .filter((card) => ui.agent === undefined || card.agent === ui.agent)
    .sort((a, b) => b.changedAtMs - a.changedAtMs)
  const all = Object.values(state.counts).reduce((sum, one) => sum + one, 0)
  return [
    h(
      'div',
      { class: 'heading' },
      h('h1', null, 'Tasks'),
      h(
        'label',
        { class: 'field' },
        'Agent',
        h(
          'select',
          {
            onchange: ({ target }) => {
              ui.agent = target.value === '' ? undefined : target.value
              page.redraw()
            }
          },
          h('option', { value: '', key: '', selected: ui.agent === undefined }, 'All agents'),
          agents.map((name) => h('option', { value: name, key: name, selected: ui.agent === name }, name))
        )
      )
    ),
    all === 0
      ? h(
          'div',
          { class: 'empty', key: 'none' },
          h('p', null, 'No task yet. What others give to your agents shows up here as it happens.'),
          h('p', null, 'Try ', h('code', null, 'rookery send NAME --text hello'), '.')
        )
      : h(
          'div',
          { class: 'board', key: 'board' },
          COLUMNS.map((column) => columnOf(column, cards, state, page, ui))
        )
  ]
}

function columnOf({ name, states, empty }, cards, state, page, ui) {
  const mine = cards.filter((card) => states.includes(card.state))
  const total = states.reduce((sum, one) => sum + (state.counts[one] ?? 0), 0)
  const more = ui.agent === undefined ? total - mine.length : 0
  const id = `column-${states[0]}`
  return h(
    'section',
    { class: 'column', key: name, 'aria-labelledby': id },
    h('h2', { id }, name, ' ', h('span', { class: 'count' }, number(ui.agent === undefined ? total : mine.length))),
    mine.length === 0
      ? h('p', { class: 'column-empty' }, empty)
      : h(
          'ul',
          { class: 'cards' },
          mine.map((card) => cardOf(card, page))
        ),
    more > 0 ? h('p', { class: 'more' }, `and ${number(more)} more`) : undefined
  )
}

function cardOf(card, page) {
  const now = page.now()
  const needsYou = needsOwner(card)
  const [tone, word] = needsYou ? ['warn', 'needs your approval'] : STATE_CHIPS[card.state]
  const verdict = (verdict, done) => page.act('inbox.approve', { id: card.id, verdict }, done)
  return h(
    'li',
    { class: 'card', key: card.id },
    h('div', { class: 'card-top' }, h('strong', { class: 'clip' }, card.agent), chip(tone, word)),
    h(
      'button',
      { type: 'button', class: 'card-text', onclick: () => showTask(card, page) },
      card.preview === '' ? h('em', null, 'no text') : card.preview
    ),
    card.failure === undefined ? undefined : h('p', { class: 'card-failure' }, card.failure),
    h(
      'div',
      { class: 'card-below' },
      h('span', { class: 'clip' }, `by ${DOORS[card.door] ?? card.door}${card.attempt > 1 ? `, attempt ${card.attempt}` : ''}`),
      moment(card.changedAtMs, now)
    ),
    needsYou
      ? h(
          'div',
          { class: 'actions' },
          h(
            'button',
            { type: 'button', class: 'primary', onclick: () => verdict('given', `The task of ${card.agent} may run`) },
            'Approve'
          ),
          h('button', { type: 'button', onclick: () => verdict('refused', 'The task was refused') }, 'Refuse')
        )
      : undefined,
    card.state === 'failed'
      ? h(
          'div',
          { class: 'actions' },
          h('button', { type: 'button', onclick: () => page.act('inbox.retry', { id: card.id }, 'Tried again as a new task') }, 'Try again')
        )
      : undefined
  )
}

async function showTask(card, page) {
  const result = await page.act('inbox.show', { id: card.id })
  if (result === undefined) return
  const { todo } = result
  const now = page.now()
  await page.show(`Task of ${card.agent}`, [
    h(
      'dl',
      { class: 'facts' },
      [
        ['State', chip(...STATE_CHIPS[todo.state])],
        ['Id', h('code', { class: 'wrap' }, todo.id)],
        ['From', shortName(todo.caller, 24, 8)],
        ['Came', h('span', null, moment(todo.createdAtMs, now), ` by ${DOORS[todo.door] ?? todo.door}`)],
        ['Changed', moment(todo.changedAtMs, now)],
        ...(todo.failure === undefined ? [] : [['Why', todo.failure]])
      ].map(([name, value]) => h('div', { key: name }, h('dt', null, name), h('dd', null, value)))
    ),
    h('h3', null, counted(todo.history.length, 'message')),
    todo.history.slice(-20).map((message) => h('pre', null, `${message.role === 'ROLE_AGENT' ? 'agent' : 'caller'}: ${textOf(message)}`)),
    todo.artifacts.length === 0 ? undefined : h('h3', null, counted(todo.artifacts.length, 'result')),
    todo.artifacts.slice(0, 20).map((artifact) => h('pre', null, textOf(artifact)))
  ])
}

function textOf({ parts }) {
  const texts = (Array.isArray(parts) ? parts : []).map(
    (part) =>
      part?.text ?? (part?.data === undefined ? `[${part?.filename ?? part?.mediaType ?? 'file'}]` : JSON.stringify(part.data, null, 2))
  )
  const text = texts.join('\n')
  return text.length > 20_000 ? `${text.slice(0, 20_000)}… and ${number(text.length - 20_000)} characters more` : text
}
