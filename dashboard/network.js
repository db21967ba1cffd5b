import { h } from './dom.js'
import { chip, counted, moment, number, shortName, tableOf, until } from './format.js'
import { networkGraph } from './graph.js'
import { loading } from './overview.js'
import { more } from './trust.js'

const MEMBERS_MAX = 50
const ROWS_MAX = 100

export function network({ network: held, status, sessions }, page, ui) {
  if (held === undefined || status === undefined) return [h('h1', null, 'Network'), loading()]
  const now = page.now()
  ui.members ??= {}
  const remotes = new Map((sessions?.sessions ?? []).filter((one) => one.state === 'established').map((one) => [one.remote, one]))
  return [
    h(
      'div',
      { class: 'heading' },
      h('h1', null, 'Network'),
      status.network === 'isolated' ? chip('warn', 'isolated') : chip('good', 'connected')
    ),
    h(
      'figure',
      { class: 'graph' },
      networkGraph({ held, agents: status.agents, members: ui.members, remotes }),
      h(
        'figcaption',
        null,
        h('span', { class: 'key node' }, 'this node'),
        h('span', { class: 'key agent' }, 'agent'),
        h('span', { class: 'key space' }, 'space'),
        h('span', { class: 'key member' }, 'member'),
        h('span', { class: 'key peer' }, 'peer connected'),
        h('span', { class: 'key far' }, 'known, not connected')
      )
    ),
    h('h2', null, 'Spaces'),
    held.spaces.length === 0
      ? h(
          'p',
          { class: 'empty' },
          'None of our agents is in a space. ',
          h('code', null, 'rookery space join org.agentnet/marketplace.energy@1'),
          ' joins one.'
        )
      : spaceTable(held.spaces, page, ui, now),
    more(held.spacesTotal - held.spaces.length),
    h('div', { class: 'columns' }, peers(held), table(held, status))
  ]
}

function spaceTable(spaces, page, ui, now) {
  const names = [...new Set(spaces.map((one) => one.name))]
  return tableOf(
    ['Space', 'Our agents', 'Kept', 'Members'],
    names.map((name) => {
      const ours = spaces.filter((one) => one.name === name)
      return {
        key: name,
        cells: [
          [
            h('span', { class: 'wrap' }, name),
            ours[0].space === 'gone' ? h('div', { class: 'under error' }, 'its curator withdrew it') : undefined
          ],
          ours.map((one) =>
            h(
              'div',
              { key: `${one.agent} ${one.role}` },
              one.agent,
              h('span', { class: 'muted' }, `, ${one.role}${one.listing === 'unlisted' ? ', not listed' : ''}`)
            )
          ),
          ours.map((one) => h('div', { key: `${one.agent} ${one.role}`, class: 'nowrap' }, 'ends ', moment(one.expiresAtMs, now, until))),
          membersOf(name, page, ui)
        ]
      }
    })
  )
}

function membersOf(name, page, ui) {
  const found = ui.members[name]
  if (found === 'asking') return h('span', { class: 'muted' }, 'asking the registrars…')
  const ask = async () => {
    ui.members[name] = 'asking'
    page.redraw()
    const result = await page.act('find', { name, limit: MEMBERS_MAX })
    if (result === undefined) delete ui.members[name]
    else {
      ui.members[name] = result
      page.announce(`${counted(result.members.length, 'member')} found in ${name}`)
    }
    page.redraw()
  }
  const button = h(
    'button',
    { type: 'button', key: 'ask', 'aria-label': `Find the members of ${name}`, onclick: ask },
    found === undefined ? 'Find' : 'Again'
  )
  if (found === undefined) return button
  return h(
    'div',
    { class: 'members' },
    h('span', null, counted(found.members.length, 'member'), found.complete ? '' : ' at least'),
    button,
    h(
      'ul',
      { class: 'plain' },
      found.members.slice(0, 10).map((one) =>
        h(
          'li',
          { key: one.did },
          shortName(one.did),
          ' ',
          one.tags.map((tag) => h('span', { class: 'verb', key: tag }, tag))
        )
      )
    ),
    more(found.members.length - 10)
  )
}

function peers(held) {
  const rows = held.peers.slice(0, ROWS_MAX)
  return h(
    'section',
    { 'aria-labelledby': 'peers-title' },
    h('h2', { id: 'peers-title' }, 'Peers ', h('span', { class: 'count' }, number(held.peersTotal))),
    rows.length === 0
      ? h(
          'p',
          { class: 'empty' },
          'No peer is connected. Nodes of the same link find each other; others are named by the setting ',
          h('code', null, 'bootstrap'),
          '.'
        )
      : undefined,
    h(
      'ul',
      { class: 'rows' },
      rows.map((one) =>
        h('li', { key: one.peer }, shortName(one.peer, 20, 8), one.isInTable ? chip('good', 'in the table') : chip('idle', 'connected'))
      )
    ),
    more(held.peersTotal - rows.length)
  )
}

function table(held, status) {
  const rows = held.known.slice(0, ROWS_MAX)
  return h(
    'section',
    { 'aria-labelledby': 'table-title' },
    h('h2', { id: 'table-title' }, 'Routing table ', h('span', { class: 'count' }, number(held.tableTotal))),
    h(
      'p',
      { class: 'muted' },
      status.dhtMode === 'server' ? 'This node serves the DHT, ' : 'This node asks the DHT and does not serve it, ',
      `${held.scope === 'lan' ? 'on private addresses too' : 'on public addresses alone'}. ${counted(held.tableTotal, 'peer')} in the table, ${number(held.known.length)} of them without a connection just now.`
    ),
    h(
      'ul',
      { class: 'rows' },
      rows.map((peer) => h('li', { key: peer }, shortName(peer, 20, 8), chip('idle', 'known')))
    ),
    more(held.known.length - rows.length)
  )
}
