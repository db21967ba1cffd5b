// The node among its agents, their spaces and its peers, as a picture. The lists below it say the same in words.

import { h } from './dom.js'
import { counted } from './format.js'

const WIDTH = 900
const HEIGHT = 420
const PEERS_MAX = 32
const FAR_MAX = 24
const SPACES_MAX = 10
const MEMBERS_MAX = 12
const AGENTS_MAX = 10

/** @param given - the network section, our agents, members that were looked up by space, and sessions by DID */
export function networkGraph({ held, agents, members, remotes }) {
  const middle = { x: 330, y: HEIGHT / 2 }
  const ours = agents.slice(0, AGENTS_MAX)
  const names = [...new Set(held.spaces.map((one) => one.name))].slice(0, SPACES_MAX)
  const lines = []
  const dots = []
  const place = (i, count, x, from = 40, to = HEIGHT - 40) => ({
    x,
    y: count === 1 ? (from + to) / 2 : from + ((to - from) * i) / (count - 1)
  })
  const agentAt = new Map(ours.map((agent, i) => [agent.name, place(i, ours.length, 510, 70, HEIGHT - 70)]))
  const spaceAt = new Map(names.map((name, i) => [name, place(i, names.length, 685, 60, HEIGHT - 60)]))

  arc(held.known.slice(0, FAR_MAX), middle, 270, 175, (peer, at) => {
    lines.push(line(`far ${peer}`, middle, at, 'far'))
    dots.push(h('circle', { key: peer, class: 'far', cx: at.x, cy: at.y, r: 4 }, h('title', null, `${peer}, known`)))
  })
  arc(held.peers.slice(0, PEERS_MAX), middle, 185, 150, ({ peer, isInTable }, at) => {
    lines.push(line(`peer ${peer}`, middle, at, 'peer'))
    dots.push(
      h(
        'circle',
        { key: peer, class: 'peer', cx: at.x, cy: at.y, r: 7 },
        h('title', null, `${peer}, connected${isInTable ? ', in the routing table' : ''}`)
      )
    )
  })
  for (const agent of ours) {
    const at = agentAt.get(agent.name)
    lines.push(line(`agent ${agent.name}`, middle, at, 'agent'))
    dots.push(
      h(
        'g',
        { key: `agent ${agent.name}`, class: `agent${agent.reachable.now === 'accepts' ? '' : ' asleep'}` },
        h('circle', { cx: at.x, cy: at.y, r: 10 }),
        label(at.x, at.y - 16, agent.name, 14)
      )
    )
  }
  for (const one of held.spaces) {
    const from = agentAt.get(one.agent)
    const to = spaceAt.get(one.name)
    if (from !== undefined && to !== undefined) lines.push(line(`in ${one.agent} ${one.name} ${one.role}`, from, to, one.role))
  }
  for (const [name, at] of spaceAt) {
    const found = members[name]
    if (found?.members !== undefined) {
      found.members.slice(0, MEMBERS_MAX).forEach(({ did }, i, all) => {
        const to = { x: 835, y: at.y + (i - (all.length - 1) / 2) * 16 }
        lines.push(line(`member ${name} ${did}`, at, to, remotes.has(did) ? 'member talks' : 'member'))
        dots.push(h('circle', { key: `${name} ${did}`, class: 'member', cx: to.x, cy: to.y, r: 5 }, h('title', null, did)))
      })
    }
    dots.push(
      h(
        'g',
        { key: `space ${name}`, class: 'space' },
        h('rect', { x: at.x - 11, y: at.y - 11, width: 22, height: 22, rx: 6 }),
        label(at.x, at.y + 30, name.split('/').at(-1), 26),
        h('title', null, name)
      )
    )
  }
  const text = `This node with ${counted(held.peersTotal, 'connected peer')}, ${counted(held.known.length, 'further known peer')}, ${counted(agents.length, 'agent')} and ${counted(names.length, 'space')}. The lists below name them.`
  return h(
    'svg',
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': text, preserveAspectRatio: 'xMidYMid meet' },
    h('g', { key: 'lines', class: 'lines' }, lines),
    h('g', { key: 'dots', class: 'dots' }, dots),
    h(
      'g',
      { key: 'self', class: 'self' },
      h('circle', { cx: middle.x, cy: middle.y, r: 17 }),
      label(middle.x, middle.y + 36, 'this node', 12)
    ),
    held.peersTotal > PEERS_MAX
      ? h('text', { key: 'more', class: 'note', x: 16, y: HEIGHT - 14 }, `${PEERS_MAX} of ${held.peersTotal} peers drawn`)
      : undefined
  )
}

/** Places them on an arc to the left of `middle`. */
function arc(all, middle, radiusX, radiusY, draw) {
  all.forEach((one, i) => {
    const turn = all.length === 1 ? Math.PI : Math.PI * (0.6 + (0.8 * i) / (all.length - 1))
    draw(one, { x: round(middle.x + radiusX * Math.cos(turn)), y: round(middle.y + radiusY * Math.sin(turn)) })
  })
}

const round = (value) => Math.round(value * 10) / 10

function line(key, from, to, kind) {
  return h('line', { key, class: kind, x1: from.x, y1: from.y, x2: to.x, y2: to.y })
}

function label(x, y, text, max) {
  return h('text', { x, y, 'text-anchor': 'middle' }, text.length > max ? `${text.slice(0, max - 1)}…` : text)
}
