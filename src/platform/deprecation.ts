/** Codes that have warned in this process. */
const told = new Set<string>()

/**
 * Warns once in a process that something is going away (docs/semver.md, Deprecation); `node --throw-deprecation` makes an error of it.
 * @param code - `ROOKERY_DEP` and four digits, listed in docs/semver.md and never used for anything else
 * @param message - what goes, and what to use instead
 */
export function deprecated(code: `ROOKERY_DEP${string}`, message: string): void {
  if (told.has(code)) return
  told.add(code)
  process.emitWarning(message, { type: 'DeprecationWarning', code })
}
