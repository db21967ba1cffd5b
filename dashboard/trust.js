import { h } from './dom.js'
import { chip, moment, number, shortName, tableOf, until } from './format.js'
import { loading } from './overview.js'

const FRIEND_CHIPS = {
  sent: ['info', 'asked'],
  pending: ['warn', 'waits'],
  busy: ['warn', 'has no room'],
  approved: ['good', 'approved'],
  denied: ['bad', 'denied'],
  ended: ['idle', 'ended']
}
const GRANT_CHIPS = { 'in-force': ['good', 'in force'], expired: ['idle', 'expired'], revoked: ['bad', 'revoked'] }

export function trust({ trust: held }, page) {
  if (held === undefined) return [h('h1', null, 'Grants & friends'), loading()]
  const now = page.now()
  const waiting = held.friends.filter((one) => one.direction === 'in' && one.state === 'pending')
  const others = held.friends.filter((one) => !waiting.includes(one))
  return [
    h('h1', null, 'Grants & friends'),
    h('h2', null, 'Requests for you to answer'),
    waiting.length === 0
      ? h('p', { class: 'empty' }, 'Nobody waits for an answer.')
      : h(
          'ul',
          { class: 'requests' },
          waiting.map((one) => requestOf(one, page, now))
        ),
    h('h2', null, 'Friends'),
    others.length === 0
      ? h(
          'p',
          { class: 'empty' },
          'No friends yet. An agent of another node asks with ',
          h('code', null, 'rookery friends request DID'),
          '.'
        )
      : friendTable(others, page, now),
    more(held.friendsTotal - held.friends.length),
    h('h2', null, 'Grants'),
    held.grants.length === 0
      ? h('p', { class: 'empty' }, 'Nobody holds a grant. Make one with ', h('code', null, 'rookery grant create NAME'), '.')
      : h(
          'p',
          { class: 'muted' },
          `${number(held.inForce)} of at most ${number(held.max)} in force. A revoked grant works nowhere from that moment on.`
        ),
    held.grants.length === 0 ? undefined : grantTable(held.grants, page, now),
    more(held.grantsTotal - held.grants.length)
  ]
}

export const more = (count) => (count > 0 ? h('p', { class: 'more' }, `and ${number(count)} more`) : undefined)

const verbsOf = (verbs) =>
  h(
    'span',
    { class: 'verbs' },
    verbs.map((verb) => h('span', { class: 'verb', key: verb }, verb))
  )

function requestOf(one, page, now) {
  const who = one.name === '' ? 'Somebody' : one.name
  const answer = (method, done) => page.act(method, { agent: one.agent, did: one.did }, done)
  return h(
    'li',
    { class: 'request', key: `${one.agent} ${one.did}` },
    h(
      'div',
      { class: 'request-text' },
      h('p', null, h('strong', null, who), ' asks to work with ', h('strong', null, one.agent), ' and may then ', verbsOf(one.verbs)),
      one.note === '' ? undefined : h('blockquote', null, one.note),
      h('p', { class: 'muted' }, shortName(one.did, 20, 8), ' · ', moment(one.createdAtMs, now), ' · name and note are its own words')
    ),
    h(
      'div',
      { class: 'actions' },
      h(
        'button',
        {
          type: 'button',
          class: 'primary',
          'aria-label': `Approve ${who}`,
          onclick: () => answer('friends.approve', `${who} is a friend of ${one.agent}`)
        },
        'Approve'
      ),
      h('button', { type: 'button', 'aria-label': `Deny ${who}`, onclick: () => answer('friends.deny', `${who} was denied`) }, 'Deny')
    )
  )
}

function friendTable(friends, page, now) {
  const remove = async (one) => {
    const who = one.name === '' ? 'this friend' : one.name
    if (await page.confirm(`Remove ${who}?`, 'What it may do here ends at once, and what we asked it for is forgotten.', 'Remove')) {
      await page.act('friends.remove', { agent: one.agent, did: one.did }, 'Removed')
    }
  }
  return tableOf(
    ['Friend', 'Agent', 'Who asked', 'State', 'May', 'Changed', ''],
    friends.map((one) => ({
      key: `${one.direction} ${one.agent} ${one.did}`,
      cells: [
        [
          h('span', { class: 'clip' }, one.direction === 'in' && one.name !== '' ? one.name : 'no name'),
          h('div', { class: 'under' }, shortName(one.did))
        ],
        one.agent,
        one.direction === 'in' ? 'they' : 'we',
        [chip(...(FRIEND_CHIPS[one.state] ?? ['idle', one.state])), one.told ? undefined : h('div', { class: 'under' }, 'not told yet')],
        [
          verbsOf(one.grant?.verbs ?? one.verbs),
          one.grant === undefined ? undefined : h('div', { class: 'under' }, 'ends ', moment(one.grant.untilMs, now, until))
        ],
        moment(one.changedAtMs, now),
        h('button', { type: 'button', class: 'quiet', 'aria-label': `Remove ${one.name}`, onclick: () => remove(one) }, 'Remove')
      ]
    }))
  )
}

function grantTable(grants, page, now) {
  const revoke = async (one) => {
    if (
      await page.confirm(
        `Revoke the grant of ${one.name}?`,
        'Its holder is refused from now on. This cannot be undone; a new grant can be made.',
        'Revoke'
      )
    ) {
      await page.act('grant.revoke', { id: one.id }, `The grant of ${one.name} is revoked`)
    }
  }
  return tableOf(
    ['Holder', 'Agent', 'State', 'May', 'At most', 'Ends', ''],
    grants.map((one) => ({
      key: one.id,
      cells: [
        [
          h('span', { class: 'clip' }, one.name),
          h('div', { class: 'under' }, h('code', null, one.id), one.origin === 'friend' ? ' · friend' : '')
        ],
        one.agent,
        chip(...(GRANT_CHIPS[one.state] ?? ['idle', one.state])),
        verbsOf(one.verbs),
        h('span', { class: 'nowrap' }, `${number(one.limits.perMin)}/min`),
        one.state === 'revoked' && one.revokedAtMs !== undefined
          ? ['revoked ', moment(one.revokedAtMs, now)]
          : moment(one.expiresAtMs, now, until),
        one.state === 'in-force'
          ? h(
              'button',
              { type: 'button', class: 'quiet', 'aria-label': `Revoke the grant of ${one.name}`, onclick: () => revoke(one) },
              'Revoke'
            )
          : undefined
      ]
    }))
  )
}
