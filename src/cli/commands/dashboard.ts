import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { writePrivateFile } from '../../platform/files.ts'
import type { Invocation, RegisterCommand } from '../context.ts'

/** Sends the browser on; its name is on the command line, where other users of the machine could read the address itself. */
const PAGE_FILE = 'dashboard.html'

export const registerDashboard: RegisterCommand = (program, run) => {
  program
    .command('dashboard')
    .description("open the running node's dashboard: network, sessions, tasks, queues, grants and logs, in a browser of this machine")
    .option('--no-open', 'print the address and open no browser')
    .addHelpText(
      'after',
      `
The address signs one page in, once, within two minutes; run the command again for another. The page stays signed in until it is closed, signed out,
or silent for twelve hours, or until the node restarts.

Example:
  rookery dashboard
  ssh -L 4712:127.0.0.1:4712 HOST rookery dashboard --no-open     use the dashboard of another machine`
    )
    .action((options: { open: boolean }, command) =>
      run(command, async (invocation) => {
        const { out } = invocation
        const result = await invocation.call('dashboard.open', {})
        const opened = options.open && !out.json && (await openBrowser(invocation, result.url))
        out.result(result, () => {
          out.line(
            opened
              ? 'The dashboard opens in your browser. If it does not, open this address:'
              : 'Open this address in a browser of this machine:'
          )
          out.line(`  ${result.url}`)
          out.line(out.paint.dim('It works once, within two minutes, for whoever opens it first.'))
        })
      })
    )
}

/** Whether a browser was asked to open it; false where nobody would see it. */
async function openBrowser({ dataDir, env }: Invocation, url: string): Promise<boolean> {
  const opener = openerOf(env)
  if (opener === undefined || process.stdout.isTTY !== true) return false
  const file = join(dataDir, PAGE_FILE)
  writePrivateFile(file, `<!doctype html><meta charset="utf-8"><title>Rookery</title><meta http-equiv="refresh" content="0;url=${url}">\n`)
  const [name, ...args] = opener
  return await new Promise((resolve) => {
    const child = spawn(name as string, [...args, pathToFileURL(file).href], { stdio: 'ignore', detached: true })
    child.once('error', () => resolve(false))
    child.once('spawn', () => {
      child.unref()
      resolve(true)
    })
  })
}

function openerOf(env: NodeJS.ProcessEnv): string[] | undefined {
  switch (process.platform) {
    case 'darwin':
      return ['open']
    case 'win32':
      return ['rundll32', 'url.dll,FileProtocolHandler']
    default:
      return env.DISPLAY === undefined && env.WAYLAND_DISPLAY === undefined ? undefined : ['xdg-open']
  }
}
