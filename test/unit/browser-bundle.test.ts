import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build, type Metafile } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBrowser, withoutNode } from '../../packaging/browser/build.ts'

/** What a page loads before it can call createBrowserNode. Raise it knowingly: every visitor pays it. */
const BYTES_MAX = 1_400 * 1024
const GZIP_BYTES_MAX = 460 * 1024

describe('the bundle for pages', () => {
  let folder: string
  let outputs: Metafile['outputs']
  let inputs: string[]

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'rookery-bundle-'))
    const metafile = await buildBrowser(folder)
    outputs = Object.fromEntries(Object.entries(metafile.outputs).map(([file, output]) => [basename(file), output]))
    inputs = Object.keys(metafile.inputs)
  }, 60_000)

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** The entry and the chunks that it imports before it runs. */
  const loadedFirst = () => {
    const files = new Set(['rookery.js'])
    for (const file of files) {
      for (const { path, kind } of outputs[file]?.imports ?? []) if (kind === 'import-statement') files.add(basename(path))
    }
    return [...files]
  }

  it(`is at most ${BYTES_MAX} bytes, ${GZIP_BYTES_MAX} on the wire, before a page can start a node`, () => {
    const files = loadedFirst().map((file) => readFileSync(join(folder, file)))
    expect(files.length).toBeGreaterThan(0)
    expect(files.reduce((sum, { length }) => sum + length, 0)).toBeLessThanOrEqual(BYTES_MAX)
    expect(files.reduce((sum, file) => sum + gzipSync(file).length, 0)).toBeLessThanOrEqual(GZIP_BYTES_MAX)
  })

  it('fetches WebRTC only when it is dialled', () => {
    const holdsWebRtc = (file: string) => Object.keys(outputs[file]?.inputs ?? {}).some((path) => path.includes('@libp2p/webrtc/'))
    expect(Object.keys(outputs).some(holdsWebRtc)).toBe(true)
    expect(loadedFirst().filter(holdsWebRtc)).toEqual([])
  })

  it('is the same, byte for byte, whenever it is built', async () => {
    const again = mkdtempSync(join(tmpdir(), 'rookery-bundle-'))
    try {
      await buildBrowser(again)
      expect(readdirSync(again).sort()).toEqual(readdirSync(folder).sort())
      for (const file of readdirSync(folder)) expect(readFileSync(join(again, file)).equals(readFileSync(join(folder, file)))).toBe(true)
    } finally {
      rmSync(again, { recursive: true, force: true })
    }
  }, 60_000)

  it('has a source map for each of its files', () => {
    const scripts = Object.keys(outputs).filter((file) => file.endsWith('.js'))
    for (const file of scripts) expect(statSync(join(folder, `${file}.map`)).size).toBeGreaterThan(0)
  })

  it('holds no module that needs Node: neither of Node nor of this project’s Node side', () => {
    expect(
      inputs.filter((path) => /^node:|@chainsafe\/libp2p-quic|@libp2p\/(tcp|mdns)\/|classic-level|pino|prom-client/.test(path))
    ).toEqual([])
    expect(
      inputs.filter((path) => /src\/(cli|config\/load|net\/node-host|identity\/key-file|state\/key-file-slots|work\/solver\.)/.test(path))
    ).toEqual([])
  })

  it('cannot be made of code that names a module of Node', async () => {
    const bundled = (code: string) =>
      build({
        stdin: { contents: code, resolveDir: folder },
        bundle: true,
        write: false,
        platform: 'browser',
        logLevel: 'silent',
        plugins: [withoutNode]
      })
    await expect(bundled("import { readFileSync } from 'node:fs'; console.log(readFileSync)")).rejects.toThrow(
      'node:fs is a module of Node'
    )
    await expect(bundled("import { connect } from 'net'; console.log(connect)")).rejects.toThrow('net is a module of Node')
  })
})
