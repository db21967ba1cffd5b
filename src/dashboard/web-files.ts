import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { RookeryError } from '../errors.ts'

const TYPES = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml'
}

/** What the page is made of; nothing else is served, whatever lies beside it. */
const FILES = [
  'index.html',
  'base.css',
  'parts.css',
  'views.css',
  'work.css',
  'narrow.css',
  'icon.svg',
  'app.js',
  'client.js',
  'dom.js',
  'format.js',
  'graph.js',
  'overview.js',
  'network.js',
  'sessions.js',
  'mail.js',
  'tasks.js',
  'trust.js',
  'logs.js'
] as const

export interface WebFile {
  path: string
  type: string
  body: Buffer
}

/** The page's files as they lie in the package, the page itself at `/dashboard`. @throws RookeryError `DASHBOARD_MISSING` */
export function webFiles(): WebFile[] {
  const folder = ['../../dashboard', '../../../dashboard']
    .map((up) => join(import.meta.dirname, up))
    .find((one) => existsSync(join(one, 'index.html')))
  if (folder === undefined) {
    throw new RookeryError('DASHBOARD_MISSING', "the dashboard's files are not beside this program", {
      kind: 'config',
      field: 'ops.dashboard',
      remedy: 'install the package anew, or set ops.dashboard to false'
    })
  }
  return FILES.map((name) => ({
    path: name === 'index.html' ? '/dashboard' : `/dashboard/${name}`,
    type: TYPES[name.slice(name.lastIndexOf('.') + 1) as keyof typeof TYPES],
    body: readFileSync(join(folder, name))
  }))
}
