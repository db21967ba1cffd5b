import { globSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Metafile, type Plugin } from 'esbuild'

const here = dirname(fileURLToPath(import.meta.url))
const root = dirname(dirname(here))

/** What packages may name of Node, and what stands in its place: a file beside this one, or a package of npm. Anything else of Node fails the build. */
const IN_PLACE: Readonly<Record<string, string | undefined>> = {
  events: join(here, 'events.js'),
  crypto: join(here, 'crypto.js'),
  buffer: join(root, 'node_modules/buffer/index.js')
}

export const withoutNode: Plugin = {
  name: 'without-node',
  setup({ onResolve }) {
    onResolve({ filter: /^(node:)?[a-z_/]+$/ }, ({ path, importer }) => {
      if (!path.startsWith('node:') && !builtinModules.includes(path)) return undefined
      const stand = importer.includes('node_modules') ? IN_PLACE[path] : undefined
      if (stand !== undefined) return { path: stand }
      return { errors: [{ text: `${path} is a module of Node, which a page has not; named by ${importer}` }] }
    })
  }
}

const DOUBLES = ['protons-runtime', 'race-signal', 'it-byte-stream']

/** npm installs one version of a package as often as it pleases; a page loads it once: the copy whose folder comes first by name. */
const once: Plugin = {
  name: 'one-copy',
  setup({ onLoad }) {
    const chosen = new Map<string, string>()
    const nameOf = (folder: string) => {
      const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { name: string; version: string }
      return `${name}@${version}`
    }
    for (const double of DOUBLES) {
      const places = ['', '*/node_modules/', '@*/*/node_modules/'].map((place) => `node_modules/${place}${double}`)
      for (const folder of globSync(places, { cwd: root }).sort()) {
        const path = realpathSync(join(root, folder))
        const name = nameOf(path)
        if (!chosen.has(name)) chosen.set(name, path)
      }
    }
    onLoad({ filter: new RegExp(`node_modules/(${DOUBLES.join('|')})/.*\\.js$`) }, ({ path }) => {
      const [, folder = '', file = ''] = new RegExp(`^(.*/node_modules/(?:${DOUBLES.join('|')}))(/.*)$`).exec(realpathSync(path)) ?? []
      const held = folder === '' ? undefined : chosen.get(nameOf(folder))
      if (held === undefined || held === folder) return undefined
      return { contents: `export * from ${JSON.stringify(held + file)}`, loader: 'js', resolveDir: dirname(path) }
    })
  }
}

/** Bundles `rookery/browser` into `folder`: rookery.js, and chunks that it loads when they are needed, each with its source map. */
export async function buildBrowser(folder: string): Promise<Metafile> {
  rmSync(folder, { recursive: true, force: true })
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: { rookery: 'src/browser/index.ts' },
    outdir: folder,
    entryNames: '[name]',
    chunkNames: 'rookery-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'browser',
    target: ['es2022', 'chrome120', 'firefox121', 'safari17.4'],
    minify: true,
    sourcemap: 'linked',
    sourcesContent: false,
    metafile: true,
    legalComments: 'none',
    logLevel: 'warning',
    plugins: [withoutNode, once]
  })
  return metafile
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const { outputs } = await buildBrowser(join(root, 'dist', 'browser'))
  for (const [file, { bytes }] of Object.entries(outputs))
    if (file.endsWith('.js')) process.stdout.write(`${file} ${Math.ceil(bytes / 1024)} KiB\n`)
}
