/** A state of the world, which knows what may happen in it. */
export interface Space<State> {
  readonly initial: () => State
  readonly copy: (state: State) => State
  readonly fingerprint: (state: State) => string
  /** names of what may happen now; the same in the same state */
  readonly events: (state: State) => readonly string[]
  /** @throws where a promise is broken */
  readonly happen: (state: State, event: string) => void
  /** @throws where a promise is broken in a state, however it came about. The state is a copy, to do with as one likes */
  readonly judge: (state: State) => void
}

export interface Exploration {
  readonly states: number
  readonly transitions: number
  /** events on the longest way that was gone */
  readonly depth: number
  /** states from which nothing more may happen */
  readonly ends: number
  /** whether every state was looked at, and not just as many as were allowed */
  readonly isWhole: boolean
  /** a way to a promise that was broken; the shortest where the order is `near` */
  readonly broken?: { readonly events: readonly string[]; readonly error: string }
}

interface Reached<State> {
  readonly from: number
  readonly event: string
  readonly depth: number
  /** dropped once it was explored */
  state: State | undefined
}

export interface ExploreOptions {
  readonly statesMax?: number
  /** `near`: the shortest way to a mistake is found, and all states of one depth are held; `deep`: few are, and the way found is some way */
  readonly order?: 'near' | 'deep'
  readonly told?: (states: number, transitions: number, waiting: number) => void
}

/** Visits every state that can be reached. Stops at the first promise that is broken. */
export function explore<State>(space: Space<State>, options: ExploreOptions = {}): Exploration {
  const { statesMax = Number.POSITIVE_INFINITY, order = 'near', told = () => {} } = options
  const reached: Reached<State>[] = []
  const known = new Set<string>()
  let [transitions, depth, ends] = [0, 0, 0]
  const pathTo = (index: number): string[] => {
    const path: string[] = []
    for (let at = index; at > 0; at = (reached[at] as Reached<State>).from) path.unshift((reached[at] as Reached<State>).event)
    return path
  }
  const result = (broken?: Exploration['broken']): Exploration => ({
    states: reached.length,
    transitions,
    depth,
    ends,
    isWhole: broken === undefined && reached.length < statesMax,
    ...(broken === undefined ? {} : { broken })
  })
  /** @returns the error where one was made */
  const held = (act: () => void): string | undefined => {
    try {
      act()
      return undefined
    } catch (error) {
      return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    }
  }
  const first = space.initial()
  known.add(space.fingerprint(first))
  reached.push({ from: 0, event: '', depth: 0, state: first })
  const waiting = [0]
  let next = 0
  for (let visited = 0; order === 'near' ? next < waiting.length : waiting.length > 0; visited++) {
    const at = (order === 'near' ? waiting[next++] : waiting.pop()) as number
    const here = reached[at] as Reached<State>
    const state = here.state as State
    const unfit = held(() => space.judge(space.copy(state)))
    if (unfit !== undefined) return result({ events: pathTo(at), error: unfit })
    const events = space.events(state)
    if (events.length === 0) ends++
    for (const event of events) {
      const after = space.copy(state)
      const error = held(() => space.happen(after, event))
      transitions++
      if (error !== undefined) return result({ events: [...pathTo(at), event], error })
      const name = space.fingerprint(after)
      if (known.has(name) || reached.length >= statesMax) continue
      known.add(name)
      depth = Math.max(depth, here.depth + 1)
      reached.push({ from: at, event, depth: here.depth + 1, state: after })
      waiting.push(reached.length - 1)
    }
    here.state = undefined
    if (visited % 500 === 0) told(reached.length, transitions, reached.length - visited)
  }
  return result()
}
