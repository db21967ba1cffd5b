import { loadConfig } from '../../src/config/load.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { runDaemon } from '../../src/daemon.ts'
import { RookeryError } from '../../src/errors.ts'

/** A node in a process of its own: `node daemon-process.ts DATA_DIR '{"listen": […]}'`. One JSON line when it is ready, one when it fails. */
const [dataDir = '', flags = '{}'] = process.argv.slice(2)
const print = (value: object) => process.stdout.write(`${JSON.stringify(value)}\n`)
try {
  const { config } = loadConfig({ dataDir, env: {}, flags: { logs: { level: 'warn' }, ...(JSON.parse(flags) as ConfigInput) } })
  process.exitCode = await runDaemon(config, { onReady: (status) => print({ ready: status }) })
  process.exit()
} catch (error) {
  print({ error: error instanceof RookeryError ? error.toJSON() : { code: 'INTERNAL', message: String(error) } })
  process.exit(1)
}
