import { h } from './dom.js'
import { bytes, chip, counted, moment, number, shortName, tableOf, until } from './format.js'
import { loading, queueBar } from './overview.js'
import { more } from './trust.js'

const OPEN = /^(queued-here|kept-by-)/

export function mail({ mail: held }, page) {
  if (held === undefined) return [h('h1', null, 'Queues & outbox'), loading()]
  const now = page.now()
  const { outbox } = held
  return [
    h('h1', null, 'Queues & outbox'),
    h('h2', null, 'What waits for our agents'),
    held.agents.length === 0
      ? h('p', { class: 'empty' }, 'No agent lives here yet.')
      : h(
          'ul',
          { class: 'queues' },
          held.agents.map((agent) => queueOf(agent, page, now))
        ),
    h('h2', null, 'What our agents undertook to deliver'),
    outbox.messages.length === 0
      ? h(
          'p',
          { class: 'empty' },
          'The outbox is empty. ',
          h('code', null, 'rookery send DID --text TEXT --outbox'),
          ' puts a message there until it is delivered.'
        )
      : [
          h('p', { class: 'muted' }, `${counted(outbox.waiting, 'message')} not delivered yet, ${bytes(outbox.bytes)} on disk`),
          outboxTable(outbox.messages, page, now),
          more(outbox.total - outbox.messages.length)
        ]
  ]
}

function queueOf(agent, page, now) {
  const sleeps = agent.now !== 'accepts'
  return h(
    'li',
    { class: 'queue', key: agent.name },
    h(
      'div',
      { class: 'queue-head' },
      h('h3', null, agent.name),
      sleeps ? chip('idle', 'asleep') : chip('good', 'takes work'),
      h('div', { class: 'grow' }, queueBar(agent.queue)),
      sleeps && agent.queue.messages > 0
        ? h(
            'button',
            {
              type: 'button',
              'aria-label': `Wake ${agent.name}`,
              onclick: () => page.act('wake', { agent: agent.name }, `${agent.name} takes work again`)
            },
            'Wake'
          )
        : undefined
    ),
    agent.entries.length === 0
      ? undefined
      : [
          tableOf(
            ['From', 'Size', 'Came', 'Kept'],
            agent.entries.map((one) => ({
              key: one.key,
              cells: [
                one.issuer === '' ? 'unknown' : shortName(one.issuer),
                bytes(one.bytes),
                moment(one.enqueuedAtMs, now),
                ['ends ', moment(one.expiresAtMs, now, until)]
              ]
            })),
            'inner'
          ),
          more(agent.queue.messages - agent.entries.length)
        ]
  )
}

function stateChip(state) {
  if (state === 'queued-here') return chip('warn', 'waits here')
  if (state.startsWith('kept-by-')) return chip('info', `kept by ${state.slice(8)}`)
  if (state === 'delivered' || state === 'handled') return chip('good', state)
  return chip('bad', state)
}

function outboxTable(messages, page, now) {
  const drop = async (one) => {
    const isOpen = OPEN.test(one.state)
    if (!isOpen || (await page.confirm('Drop this message?', 'It is not delivered yet, and will not be tried any more.', 'Drop'))) {
      await page.act('outbox.drop', { id: one.id }, 'Dropped')
    }
  }
  return tableOf(
    ['To', 'From', 'State', 'Size', 'Tries', 'Changed', ''],
    messages.map((one) => ({
      key: one.id,
      cells: [
        [shortName(one.to), h('div', { class: 'under' }, h('code', null, one.id))],
        one.agent,
        [
          stateChip(one.state),
          one.lastError === undefined ? undefined : h('div', { class: 'under error clip', title: one.lastError }, one.lastError)
        ],
        bytes(one.bytes),
        [
          number(one.attempts),
          one.nextAttemptAtMs === undefined ? undefined : h('div', { class: 'under nowrap' }, moment(one.nextAttemptAtMs, now, until))
        ],
        moment(one.changedAtMs, now),
        [
          OPEN.test(one.state)
            ? h(
                'button',
                {
                  type: 'button',
                  key: 'try',
                  'aria-label': `Try ${one.id} now`,
                  onclick: () => page.act('outbox.retry', { id: one.id }, 'Tried')
                },
                'Try now'
              )
            : undefined,
          h('button', { type: 'button', key: 'drop', class: 'quiet', 'aria-label': `Drop ${one.id}`, onclick: () => drop(one) }, 'Drop')
        ]
      ]
    }))
  )
}
