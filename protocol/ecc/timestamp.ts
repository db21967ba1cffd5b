const FORM = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z$/
const DAY_MS = 86_400_000

/** Milliseconds since the Unix epoch of a ProtoJSON timestamp in UTC with milliseconds; undefined for a date that no calendar has. */
export function timestampMs(text: string): number | undefined {
  const match = FORM.exec(text)
  if (match === null) return undefined
  const [year, month, day, hour, minute, second, milli] = match.slice(1).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
    number
  ]
  if (month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59) return undefined
  return daysSinceEpoch(year, month, day) * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1_000 + milli
}

/** @param ms - whole milliseconds since the Unix epoch, of the years 0 to 9999 */
export function timestampText(ms: number): string {
  let days = Math.floor(ms / DAY_MS)
  const rest = ms - days * DAY_MS
  // Years of 365.2425 days give the year or the one after it.
  let year = Math.floor(days / 365.2425) + 1970
  while (daysSinceEpoch(year, 1, 1) > days) year--
  while (daysSinceEpoch(year + 1, 1, 1) <= days) year++
  days -= daysSinceEpoch(year, 1, 1)
  let month = 1
  for (; days >= daysIn(year, month); month++) days -= daysIn(year, month)
  const two = (n: number) => String(n).padStart(2, '0')
  const clock = `${two(Math.floor(rest / 3_600_000))}:${two(Math.floor(rest / 60_000) % 60)}:${two(Math.floor(rest / 1_000) % 60)}`
  return `${String(year).padStart(4, '0')}-${two(month)}-${two(days + 1)}T${clock}.${String(rest % 1_000).padStart(3, '0')}Z`
}

function isLeap(year: number): boolean {
  return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0
}

function daysIn(year: number, month: number): number {
  if (month === 2) return isLeap(year) ? 29 : 28
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
}

function daysSinceEpoch(year: number, month: number, day: number): number {
  const before = year - 1
  const leaps = Math.floor(before / 4) - Math.floor(before / 100) + Math.floor(before / 400)
  let days = before * 365 + leaps - 719_162
  for (let m = 1; m < month; m++) days += daysIn(year, m)
  return days + day - 1
}
