/** Names further away than this are no misspelling. */
const DISTANCE_MAX = 3

/** The known name that somebody most likely meant; undefined where none is near. Letter case does not count. */
export function nearestName(given: string, known: readonly string[]): string | undefined {
  const meant = given.toLowerCase().slice(0, 64)
  let best: { name: string; distance: number } | undefined
  for (const name of known) {
    const distance = editDistance(meant, name.toLowerCase())
    if (distance <= Math.min(DISTANCE_MAX, Math.ceil(name.length / 3)) && (best === undefined || distance < best.distance)) {
      best = { name, distance }
    }
  }
  return best?.name
}

/** Letters to put in, leave out, replace or swap with their neighbour. */
function editDistance(a: string, b: string): number {
  let [before, row] = [[] as number[], Array.from({ length: b.length + 1 }, (_, j) => j)]
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      const swapped =
        i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? (before[j - 2] as number) + 1 : Number.POSITIVE_INFINITY
      next.push(Math.min((row[j] as number) + 1, (next[j - 1] as number) + 1, (row[j - 1] as number) + same, swapped))
    }
    before = row
    row = next
  }
  return row[b.length] as number
}
