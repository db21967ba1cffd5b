import { readFileSync, realpathSync, rmSync } from 'node:fs'
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

/** npm installs one version of a package as often as it pleases; a page loads it once. */
const once: Plugin = {
  name: 'one-copy',
  setup({ onLoad }) {
    const first = new Map<string, string>()
    onLoad({ filter: /node_modules\/(protons-runtime|race-signal|it-byte-stream)\/.*\.js$/ }, ({ path }) => {
      const at = /^(.*\/node_modules\/(?:protons-runtime|race-signal|it-byte-stream))(\/.*)$/.exec(realpathSync(path))
      if (at === null) return undefined
      const [, folder = '', file = ''] = at
      const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { name: string; version: string }
      const key = `${name}@${version}${file}`
      const held = first.get(key)
      if (held === undefined) {
        first.set(key, path)
        return undefined
      }
      return held === path ? undefined : { contents: `export * from ${JSON.stringify(held)}`, loader: 'js', resolveDir: dirname(path) }
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
