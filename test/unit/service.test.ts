import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { installService, planService, uninstallService } from '../../src/service/install-service.ts'
import { launchdPlist, type ServiceSpec, systemdUnit } from '../../src/service/unit-files.ts'

const SPEC: ServiceSpec = {
  nodePath: process.execPath,
  launcherPath: join(import.meta.dirname, '../../bin/rookery.js'),
  dataDir: '/var/lib/rookery',
  scope: 'system'
}

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'rookery-service-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

const hasAnalyze = existsSync('/usr/bin/systemd-analyze')

describe('the unit of systemd', () => {
  it('may write to the data directory alone, gains no rights, and does not start again after what does not mend itself', () => {
    const lines = systemdUnit(SPEC).split('\n')
    for (const line of [
      'User=rookery',
      'ProtectSystem=strict',
      'NoNewPrivileges=yes',
      'CapabilityBoundingSet=',
      'ReadWritePaths=/var/lib/rookery'
    ]) {
      expect(lines).toContain(line)
    }
    expect(lines).toContain('RestartPreventExitStatus=2 3 10')
  })

  it('quotes paths, so that none of their characters means something to systemd', () => {
    const unit = systemdUnit({ ...SPEC, dataDir: '/data/100% "mine"/$HOME', scope: 'user' })
    expect(unit).toContain('--data "/data/100%% \\"mine\\"/$$HOME"')
  })

  it.runIf(hasAnalyze)('passes the check of systemd itself', () => {
    const file = join(dir, 'rookery.service')
    writeFileSync(file, systemdUnit({ ...SPEC, scope: 'user' }))
    const told = execFileSync('sh', ['-c', `systemd-analyze verify --man=no "${file}" 2>&1; true`], { encoding: 'utf8' })
    expect(told.split('\n').filter((line) => line.includes('rookery.service'))).toEqual([])
  })
})

describe('the property list of launchd', () => {
  it('escapes what XML would read otherwise', () => {
    const plist = launchdPlist({ ...SPEC, dataDir: '/data/a&b <c>' })
    expect(plist).toContain('<string>/data/a&amp;b &lt;c&gt;</string>')
    expect(plist).toContain('<key>KeepAlive</key>')
  })
})

describe('a service', () => {
  const at = (platform: NodeJS.Platform) => ({ platform, home: dir, uid: 501 })

  it('is written to where its manager looks, once, and taken away again', async () => {
    const plan = planService({ ...SPEC, scope: 'user', dataDir: dir }, at('linux'))
    expect(plan.file).toBe(join(dir, '.config/systemd/user/rookery.service'))
    expect(plan.begin).toEqual([
      ['systemctl', '--user', 'daemon-reload'],
      ['systemctl', '--user', 'enable', '--now', 'rookery.service']
    ])
    await installService(plan, { replace: false, begin: false })
    expect(readFileSync(plan.file, 'utf8')).toBe(plan.text)
    await expect(installService(plan, { replace: false, begin: false })).rejects.toMatchObject({ code: 'SERVICE_EXISTS', value: plan.file })
    await installService(plan, { replace: true, begin: false })
    await uninstallService({ ...plan, end: [['true']] })
    expect(existsSync(plan.file)).toBe(false)
    await expect(uninstallService(plan)).rejects.toMatchObject({ code: 'SERVICE_UNKNOWN' })
  })

  it('says which command failed, and leaves the file for it to be run by hand', async () => {
    const plan = planService({ ...SPEC, scope: 'user', dataDir: dir }, at('linux'))
    const failing = { ...plan, begin: [['sh', '-c', 'echo no bus >&2; exit 1']] }
    await expect(installService(failing, { replace: false, begin: true })).rejects.toMatchObject({
      code: 'SERVICE_COMMAND_FAILED',
      message: expect.stringContaining('no bus')
    })
    expect(existsSync(plan.file)).toBe(true)
  })

  it('is a launchd agent on macOS, and refused where no manager is known', () => {
    expect(planService({ ...SPEC, scope: 'user' }, at('darwin')).begin[0]?.slice(0, 3)).toEqual(['launchctl', 'bootstrap', 'gui/501'])
    expect(() => planService({ ...SPEC, scope: 'user' }, at('win32'))).toThrow(
      expect.objectContaining({ code: 'SERVICE_UNSUPPORTED', value: 'win32' })
    )
    expect(() => planService(SPEC, at('darwin'))).toThrow(expect.objectContaining({ field: '--system' }))
  })
})

describe('files for containers', () => {
  const read = (name: string) => readFileSync(join(import.meta.dirname, '../../packaging', name), 'utf8')

  it('run the node without rights: the image, the Compose file and the manifests agree on user, ports and probes', () => {
    const dockerfile = read('Dockerfile')
    expect(dockerfile).toMatch(/^USER 65532:65532$/m)
    expect(dockerfile).toMatch(/^HEALTHCHECK .*4712\/healthz/m)
    const [compose] = parseAllDocuments(read('compose.yaml'), { merge: true }).map((doc) => doc.toJS())
    expect(Object.keys(compose.services)).toEqual(['a', 'b', 'c'])
    for (const service of Object.values(compose.services))
      expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'], image: 'rookery:local' })
    const objects = parseAllDocuments(read('kubernetes.yaml')).map((doc) => doc.toJS())
    expect(objects.map(({ kind }) => kind)).toEqual(['ServiceAccount', 'ConfigMap', 'Service', 'StatefulSet'])
    const { spec } = objects[3].spec.template
    expect(spec.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 65_532 })
    expect(spec.containers[0].securityContext).toMatchObject({ readOnlyRootFilesystem: true, allowPrivilegeEscalation: false })
    expect(spec.enableServiceLinks).toBe(false)
  })
})
