/** A line that a node may write at `warn` or above, and when. */
export interface AllowedLine {
  name: string
  /** of the component */
  component: RegExp
  message: RegExp
  /** `churn`: only while a node is away, or was within the last minute */
  when: 'churn' | 'always'
  why: string
}

/** What the churn itself explains; nothing else may be in the logs of a soak. */
export const ALLOWED_LINES: readonly AllowedLine[] = [
  {
    name: 'a machine that was busy with something else',
    component: /^node$/,
    message: /^the process stood still/,
    when: 'always',
    why: 'it tells how late a timer was, which is no fault of the node where others have the processor'
  },
  {
    name: 'a bootstrap peer that is away',
    component: /^net$/,
    message: /^a bootstrap peer does not answer/,
    when: 'churn',
    why: 'each node has the two others as bootstrap peers'
  },
  {
    name: 'a keeper that is away',
    component: /^keepers$/,
    message: /^a keeper could not be asked/,
    when: 'churn',
    why: 'the sleeper asks the rock for its mail as soon as it is up'
  },
  {
    name: 'a stop that left something behind',
    component: /^node$/,
    message: /^a step of the stop was left behind$/,
    when: 'churn',
    why: 'a connection to a node that is just being killed is closed against a time-out'
  },
  {
    name: 'a withdrawal that nobody heard',
    component: /^spaces$/,
    message: /^(not every withdrawal was told|the DHT did not take)/,
    when: 'churn',
    why: 'who stops tells the others, which may be away or stop too'
  }
]

export interface SoakLine {
  node: string
  atMs: number
  level: string
  component: string
  message: string
  /** the whole line, as it was written */
  text: string
}

/** A line of standard error; what is no log line of the node counts as an error. */
export function lineOf(node: string, atMs: number, text: string): SoakLine {
  try {
    const { level, component, msg } = JSON.parse(text) as { level?: unknown; component?: unknown; msg?: unknown }
    if (typeof level === 'string' && typeof msg === 'string')
      return { node, atMs, level, component: typeof component === 'string' ? component : '', message: msg, text }
  } catch {
    // no JSON: of Node itself, or of a library
  }
  return { node, atMs, level: 'error', component: '', message: text, text }
}

/** For people: the message first, then what else the line tells. */
export function shownLine({ node, atMs, level, component, message, text }: SoakLine): string {
  const more = message === text ? '' : ` ${text.slice(0, 600)}`
  return `${node} at ${Math.round(atMs / 1_000)} s: ${level} ${component}: ${message}${more}`
}

/** The rule that explains a line; undefined where nothing does. */
export function ruleFor(line: SoakLine, inChurn: boolean, rules: readonly AllowedLine[] = ALLOWED_LINES): AllowedLine | undefined {
  return rules.find(
    ({ component, message, when }) => (when === 'always' || inChurn) && component.test(line.component) && message.test(line.message)
  )
}
