import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { parseConfig } from '../../src/config/load.ts'
import { listSettings } from '../../src/config/setting-list.ts'
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

describe.runIf(hasAnalyze)('the unit of the machine, judged by systemd-analyze', () => {
  it('[packaging] leaves an exposure below 2 of 10', () => {
    const file = join(dir, 'rookery.service')
    writeFileSync(file, systemdUnit(SPEC))
    const told = execFileSync('systemd-analyze', ['security', '--offline=true', '--no-pager', '--threshold=20', file], { encoding: 'utf8' })
    expect(told).toContain('Overall exposure level')
  })
})

describe('the property list of launchd', () => {
  it('escapes what XML would read otherwise', () => {
    const plist = launchdPlist({ ...SPEC, dataDir: '/data/a&b <c>' })
    expect(plist).toContain('<string>/data/a&amp;b &lt;c&gt;</string>')
    expect(plist).toContain('<key>KeepAlive</key>')
  })

  it('[packaging] is well-formed and holds what launchd knows, with types that it takes', () => {
    const plist = readPlist(launchdPlist(SPEC)) as Record<string, unknown>
    expect(plist).toEqual({
      Label: 'dev.rookery.node',
      ProgramArguments: [SPEC.nodePath, SPEC.launcherPath, 'start', '--data', SPEC.dataDir],
      RunAtLoad: true,
      KeepAlive: { SuccessfulExit: false },
      ThrottleInterval: 10,
      ExitTimeOut: 15,
      Umask: 0o077,
      SoftResourceLimits: { NumberOfFiles: 65_536 },
      StandardErrorPath: '/var/lib/rookery/node.log',
      StandardOutPath: '/dev/null'
    })
  })
})

/** Reads the part of XML property lists that ours use; anything else throws. */
function readPlist(text: string): unknown {
  const tokens = text.slice(text.indexOf('<plist')).match(/<[^>]+>|[^<]+/g) ?? []
  let at = 0
  const next = () => {
    while (tokens[at]?.trim() === '') at++
    return tokens[at++] ?? ''
  }
  const expected = (tag: string) => {
    const token = next()
    if (token !== tag) throw new Error(`${tag} expected, ${token} found`)
  }
  const textUntil = (end: string) => {
    const inner = tokens[at]?.startsWith('<') ? '' : (tokens[at++] ?? '')
    expected(end)
    return inner.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
  }
  const value = (tag: string): unknown => {
    if (tag === '<true/>') return true
    if (tag === '<false/>') return false
    if (tag === '<string>') return textUntil('</string>')
    if (tag === '<integer>') return Number(textUntil('</integer>'))
    const out: Record<string, unknown> = {}
    const list: unknown[] = []
    if (tag !== '<dict>' && tag !== '<array>') throw new Error(`${tag} is no value`)
    for (let token = next(); token !== tag.replace('<', '</'); token = next()) {
      if (tag === '<array>') list.push(value(token))
      else {
        if (token !== '<key>') throw new Error(`a key expected, ${token} found`)
        out[textUntil('</key>')] = value(next())
      }
    }
    return tag === '<array>' ? list : out
  }
  expected('<plist version="1.0">')
  const root = value(next())
  expected('</plist>')
  return root
}

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

  it('[packaging] the Dockerfile pins its bases, copies what is there, ends in a base without a shell, and calls nothing by one', () => {
    const steps = read('Dockerfile')
      .replaceAll(/\\\n/g, ' ')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => ({ verb: line.split(' ')[0] ?? '', rest: line.slice(line.indexOf(' ') + 1) }))
    expect(new Set(steps.map(({ verb }) => verb))).toEqual(
      new Set(['FROM', 'WORKDIR', 'COPY', 'RUN', 'ENV', 'USER', 'VOLUME', 'EXPOSE', 'STOPSIGNAL', 'HEALTHCHECK', 'ENTRYPOINT', 'CMD'])
    )
    const bases = steps.filter(({ verb }) => verb === 'FROM').map(({ rest }) => rest)
    expect(bases).toEqual([expect.stringMatching(/^node:24-[a-z-]+ AS build$/), expect.stringMatching(/distroless.*24.*:nonroot$/)])
    const last = steps.slice(steps.findLastIndex(({ verb }) => verb === 'FROM'))
    expect(last.filter(({ verb }) => verb === 'RUN')).toEqual([])
    for (const verb of ['ENTRYPOINT', 'CMD']) {
      const { rest = '' } = last.find((step) => step.verb === verb) ?? {}
      expect(JSON.parse(rest), verb).toBeInstanceOf(Array)
    }
    const launcher = (JSON.parse(last.find(({ verb }) => verb === 'ENTRYPOINT')?.rest ?? '[]') as string[])[1]
    expect(launcher).toBe('/app/node_modules/rookery/bin/rookery.js')
    expect(readFileSync(join(import.meta.dirname, '../../.dockerignore'), 'utf8').split('\n')).toEqual(
      expect.arrayContaining(['.git', 'node_modules'])
    )
  })

  it('[packaging] the manifests agree with themselves: labels, ports, volumes, and the settings that the ConfigMap holds', () => {
    const [account, config, service, set] = parseAllDocuments(read('kubernetes.yaml')).map((doc) => doc.toJS())
    const { template, selector, serviceName, volumeClaimTemplates } = set.spec
    expect(selector.matchLabels).toEqual(template.metadata.labels)
    expect(service.spec.selector).toEqual(template.metadata.labels)
    expect(serviceName).toBe(service.metadata.name)
    expect(template.spec.serviceAccountName).toBe(account.metadata.name)
    const [container] = template.spec.containers
    expect(container.ports.map((port: { name: string }) => port.name)).toEqual(
      service.spec.ports.map((port: { name: string }) => port.name)
    )
    const volumes = [...template.spec.volumes, ...volumeClaimTemplates.map((claim: { metadata: object }) => claim.metadata)]
    const names = volumes.map((volume: { name: string }) => volume.name)
    for (const { name } of container.volumeMounts) expect(names).toContain(name)
    for (const name of [service, set, config, account].map((one) => one.metadata.name))
      expect(name).toMatch(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/)
    expect(parseConfig(parse(config.data['config.yaml'])).listen).toHaveLength(2)
  })

  it('[packaging] the Compose file names what it uses: networks, volumes, the Dockerfile, and variables that are settings', () => {
    const [compose] = parseAllDocuments(read('compose.yaml'), { merge: true }).map((doc) => doc.toJS())
    const settings = new Set(listSettings().map(({ variable }) => variable))
    for (const service of Object.values<{ volumes: string[]; networks: string[]; environment?: object; build: Record<string, string> }>(
      compose.services
    )) {
      for (const volume of service.volumes) expect(Object.keys(compose.volumes)).toContain(volume.split(':')[0])
      for (const network of service.networks) expect(Object.keys(compose.networks)).toContain(network)
      for (const name of Object.keys(service.environment ?? {})) expect(settings.has(name), name).toBe(true)
      expect(existsSync(join(import.meta.dirname, '../../packaging', service.build.context ?? '', service.build.dockerfile ?? ''))).toBe(
        true
      )
    }
  })
})
