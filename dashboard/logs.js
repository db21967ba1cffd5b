import { h } from './dom.js'
import { counted, number, timeOfDay } from './format.js'

/** Lines that the page holds. */
const HELD_MAX = 2_000
const SHOWN_MAX = 400
const RANKS = { debug: 0, info: 1, warn: 2, error: 3 }
const LEVEL_WORDS = { debug: 'Debug and above', info: 'Info and above', warn: 'Warnings and errors', error: 'Errors alone' }

export function takeLogs(state, { logs: lines, missed }, ui) {
  state.logs.push(...lines)
  if (state.logs.length > HELD_MAX) state.logs.splice(0, state.logs.length - HELD_MAX)
  state.logsMissed += missed
  if (ui.paused !== undefined) ui.arrived = (ui.arrived ?? 0) + lines.length
}

export function logs(state, page, ui) {
  ui.level ??= 'debug'
  const isPaused = ui.paused !== undefined
  const held = ui.paused ?? state.logs
  const wanted = (ui.text ?? '').toLowerCase()
  const fits = held.filter(
    (one) =>
      RANKS[one.level] >= RANKS[ui.level] &&
      (wanted === '' || `${one.component} ${one.message} ${one.fields}`.toLowerCase().includes(wanted))
  )
  const shown = fits.slice(-SHOWN_MAX).reverse()
  const written = state.logLevels
  return [
    h('h1', null, 'Logs'),
    h(
      'div',
      { class: 'filters', role: 'group', 'aria-label': 'Filters' },
      h(
        'label',
        { class: 'field' },
        'Level',
        h(
          'select',
          {
            onchange: ({ target }) => {
              ui.level = target.value
              page.redraw()
            }
          },
          Object.entries(LEVEL_WORDS).map(([value, word]) => h('option', { value, key: value, selected: ui.level === value }, word))
        )
      ),
      h(
        'label',
        { class: 'field grow' },
        'Contains',
        h('input', {
          type: 'search',
          placeholder: 'component or text',
          autocomplete: 'off',
          spellcheck: 'false',
          oninput: ({ target }) => {
            ui.text = target.value
            page.redraw()
          }
        })
      ),
      h(
        'button',
        {
          type: 'button',
          'aria-pressed': String(isPaused),
          onclick: () => {
            ui.paused = isPaused ? undefined : [...state.logs]
            ui.arrived = 0
            page.redraw()
          }
        },
        isPaused ? `Go on${ui.arrived > 0 ? ` (${number(ui.arrived)} new)` : ''}` : 'Pause'
      )
    ),
    h(
      'p',
      { class: 'muted' },
      written === 'off'
        ? 'This node writes its log elsewhere.'
        : `The newest first. The node writes ${written?.level ?? 'info'} and above; the setting logs.level changes that.`,
      state.logsMissed > 0 ? ` ${counted(state.logsMissed, 'line')} older than those are gone.` : ''
    ),
    shown.length === 0
      ? h('p', { class: 'empty' }, held.length === 0 ? 'Nothing was written yet.' : 'No line fits these filters.')
      : h(
          'div',
          { class: 'scroll log', tabindex: '0', role: 'region', 'aria-label': 'Log lines' },
          h(
            'table',
            null,
            h(
              'thead',
              null,
              h(
                'tr',
                null,
                ['Time', 'Level', 'Component', 'Message'].map((text) => h('th', { scope: 'col' }, text))
              )
            ),
            h('tbody', null, shown.map(lineOf))
          )
        ),
    fits.length > shown.length ? h('p', { class: 'more' }, `and ${number(fits.length - shown.length)} more`) : undefined
  ]
}

function lineOf(one) {
  return h(
    'tr',
    { key: one.seq, class: `line ${one.level}` },
    h('td', { class: 'nowrap' }, h('time', { datetime: new Date(one.atMs).toISOString() }, timeOfDay(one.atMs))),
    h('td', null, h('span', { class: `level ${one.level}` }, one.level)),
    h('td', { class: 'nowrap' }, one.component),
    h('td', { class: 'message' }, one.message, one.fields === '' ? undefined : h('code', { class: 'fields' }, one.fields))
  )
}
