// How numbers, times and names are written.

import { h } from './dom.js'

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const tenth = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })

export const number = (value) => whole.format(Number(value))
export const decimal = (value) => tenth.format(value)
export const percent = (share) => `${whole.format(share * 100)} %`
export const timeOfDay = (ms) => clock.format(ms)

export function bytes(count) {
  if (count < 1024) return `${whole.format(count)} B`
  const units = ['KiB', 'MiB', 'GiB', 'TiB']
  let value = count / 1024
  let i = 0
  while (value >= 1024 && i < units.length - 1) {
    value /= 1024
    i++
  }
  return `${tenth.format(value)} ${units[i]}`
}

/** A length of time in its two largest units at most. */
export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return minutes % 60 === 0 || hours >= 12 ? `${hours} h` : `${hours} h ${minutes % 60} min`
  return `${Math.floor(hours / 24)} days`
}

export function ago(atMs, nowMs) {
  const ms = nowMs - atMs
  return ms < 10_000 ? 'just now' : `${span(ms)} ago`
}

export const until = (atMs, nowMs) => (atMs <= nowMs ? 'over' : `in ${span(atMs - nowMs)}`)

/** A moment, with its full date for whoever points at it. */
export function moment(atMs, nowMs, write = ago) {
  return h('time', { datetime: new Date(atMs).toISOString(), title: day.format(atMs) }, write(atMs, nowMs))
}

/** A long name by its ends; the whole of it for whoever points at it, and as what a screen reader copies. */
export function shortName(text, start = 12, end = 6) {
  const bare = text.replace(/^did:key:/, '')
  const shown = bare.length > start + end + 1 ? `${bare.slice(0, start)}…${bare.slice(-end)}` : bare
  return h('code', { title: text }, shown)
}

export const counted = (count, noun, more = `${noun}s`) => `${number(count)} ${count === 1 ? noun : more}`

/** Whether a task waits for the owner's consent. */
export const needsOwner = (card) => card.approval === 'needed' && card.state === 'auth-required'

/** Status by colour and by word. */
export const chip = (tone, word) => h('span', { class: `chip ${tone}` }, word)

/**
 * A table whose rows become cards where the page is narrow. The first cell names its row; a column without a title holds what can be done.
 * @param {string[]} columns
 * @param {{ key: string, cells: unknown[] }[]} rows
 */
export function tableOf(columns, rows, kind = '') {
  const head = (title) => h('th', { scope: 'col', key: title }, title === '' ? h('span', { class: 'unseen' }, 'Actions') : title)
  const cell = (content, i) => {
    if (i === 0) return h('th', { scope: 'row', key: 0 }, content)
    return h('td', { key: i, 'data-label': columns[i], class: columns[i] === '' ? 'actions' : undefined }, h('div', null, content))
  }
  return h(
    'div',
    { class: 'scroll' },
    h(
      'table',
      { class: `stack ${kind}` },
      h('thead', null, h('tr', null, columns.map(head))),
      h(
        'tbody',
        null,
        rows.map(({ key, cells }) => h('tr', { key }, cells.map(cell)))
      )
    )
  )
}
