import { execFileSync } from 'node:child_process'
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { type BrowserContext, chromium } from 'playwright-core'
import { describe, it } from 'vitest'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
const WANTED = `Chromium (Debian: apt-get install -y --no-install-recommends chromium), or its path in ROOKERY_CHROMIUM`
const ARGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync'
]

/** $ROOKERY_CHROMIUM, or the first Chromium of /usr/bin and PATH that can be run. */
export function findChromium(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const named = env.ROOKERY_CHROMIUM
  const places = named ? [named] : ['/usr/bin', ...(env.PATH ?? '').split(delimiter)].flatMap((dir) => NAMES.map((name) => join(dir, name)))
  return places.find((place) => {
    try {
      accessSync(place, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** A real browser with a profile of its own, which goes away with {@link close}. */
export interface LaunchedChromium {
  readonly context: BrowserContext
  readonly version: string
  close(): Promise<void>
}

/** Starts the browser that {@link findChromium} finds. `args` are added to the usual ones. */
export async function launchChromium(
  options: { args?: readonly string[]; context?: Parameters<typeof chromium.launchPersistentContext>[1] } = {}
): Promise<LaunchedChromium> {
  const executablePath = findChromium()
  if (executablePath === undefined) throw new Error(`no browser was found: install ${WANTED}`)
  const profile = mkdtempSync(join(tmpdir(), 'rookery-chromium-'))
  const remove = () => rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
  try {
    const context = await chromium.launchPersistentContext(profile, {
      executablePath,
      timeout: 90_000,
      ...options.context,
      args: [...ARGS, ...(options.args ?? [])]
    })
    return {
      context,
      version: context.browser()?.version() ?? execFileSync(executablePath, ['--version'], { encoding: 'utf8' }).trim(),
      async close() {
        await context.close()
        remove()
      }
    }
  } catch (error) {
    remove()
    throw error
  }
}

/**
 * A `describe` for tests in a real browser. Where there is none they are skipped with a message that says what to install;
 * with ROOKERY_BROWSER=required they fail with it.
 */
export function describeInBrowser(title: string, tests: () => void): void {
  if (findChromium() !== undefined) {
    describe(title, tests)
    return
  }
  describe(title, () => {
    it('needs a real browser', ({ skip }) => {
      if (process.env.ROOKERY_BROWSER === 'required')
        throw new Error(`ROOKERY_BROWSER=required, and there is no browser: install ${WANTED}`)
      skip(`no browser was found: install ${WANTED}`)
    })
  })
}
