import type { Plan } from '../scenario/events.ts'

/** The events of a plan, one a line, for people. */
export function eventLines({ stages }: Plan): string[] {
  return stages.flatMap(({ name, lastsMs, lanes }) => {
    const events = lanes.flatMap((lane) => lane.events).sort((a, b) => a.atMs - b.atMs)
    if (events.length === 0) return [`${name}: nothing for ${(lastsMs / 1_000).toFixed(1)} s`]
    return events.map(({ atMs, do: verb, ...rest }) => {
      const words = Object.entries(rest).map(([key, value]) => `${key} ${typeof value === 'object' ? JSON.stringify(value) : value}`)
      return `${name}, at ${(atMs / 1_000).toFixed(1)} s: ${[verb, ...words].join(' ')}`
    })
  })
}
