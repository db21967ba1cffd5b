import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseScenario } from '../../../sim/scenario/parse.ts'
import { shippedNames, shippedText } from '../../../sim/scenario/shipped.ts'
import { A2aError } from '../../../src/a2a/a2a-error.ts'
import { EdgeRoutes } from '../../../src/a2a/edge-routes.ts'
import { checkEnvelope, idOf, parseJson } from '../../../src/a2a/json-rpc.ts'
import { isLegacySend, legacyRequest } from '../../../src/a2a/legacy-request.ts'
import { checkMethod, checkParams, checkTenant } from '../../../src/a2a/params.ts'
import { readParameters } from '../../../src/a2a/pss-texts.ts'
import { readServiceParameters } from '../../../src/a2a/service-parameters.ts'
import { CONTROL_PARAMS, parseControlCall } from '../../../src/api/methods.ts'
import { unseal } from '../../../src/backup/sealed-stream.ts'
import { readConfigFile } from '../../../src/config/config-file.ts'
import { loadConfig, parseConfig } from '../../../src/config/load.ts'
import { parseDurationMs } from '../../../src/config/units.ts'
import { artifactsOf, messageOf, parseWork, WORK_PARAMS, type WorkAct } from '../../../src/doors/work-params.ts'
import { parseIpNeigh, parseProcArp } from '../../../src/local/neighbours.ts'
import { parseAddr, parseBootstrap } from '../../../src/net/multiaddrs.ts'
import { readTarget } from '../../../src/push/target.ts'
import { checkMessage } from '../../../src/tasks/message.ts'
import { checkArtifact, checkArtifacts } from '../../../src/tasks/todo-input.ts'
import { mutateJson } from '../engine/mutate-json.ts'
import { json, text } from '../engine/seeds.ts'
import type { FuzzTarget } from '../target.ts'
import { mustBe, refusedOr, refusedOrLater } from './support.ts'

const textOf = (bytes: Uint8Array) => new TextDecoder().decode(bytes)

/** The edge's own refusals beside the protocol's. */
function answered<T>(act: () => T): T | undefined {
  try {
    return refusedOr(act)
  } catch (error) {
    if (error instanceof A2aError && error.reason !== 'INTERNAL_ERROR') return undefined
    throw error
  }
}

function jsonOf(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(textOf(bytes))
  } catch {
    return undefined
  }
}

/** JSON-RPC bodies: envelope, method, parameters, in both versions; and the parameters that a session carries beside a request. */
const a2aJson: FuzzTarget = {
  name: 'a2a-json',
  bytesMax: 8_192,
  mutators: [
    mutateJson([
      'SendMessage',
      'GetTask',
      'ListTasks',
      'message/send',
      'ROLE_USER',
      'parts',
      'messageId',
      'metadata',
      'tenant',
      'configuration'
    ])
  ],
  seeds: () => {
    const message = {
      messageId: 'm',
      role: 'ROLE_USER',
      parts: [{ text: 'hello' }, { data: { a: 1 } }, { raw: 'AAAA', filename: 'f', mediaType: 'text/plain' }]
    }
    const call = (method: string, params: object) => json({ jsonrpc: '2.0', id: 1, method, params })
    return [
      call('SendMessage', { message, configuration: { returnImmediately: true, historyLength: 1 } }),
      call('GetTask', { id: 't', historyLength: 0 }),
      call('ListTasks', { pageSize: 1, status: 'TASK_STATE_WORKING', pageToken: 'x', includeArtifacts: true }),
      call('CancelTask', { id: 't', tenant: 'x' }),
      call('SubscribeToTask', { id: 't' }),
      call('CreateTaskPushNotificationConfig', {
        taskId: 't',
        url: 'https://a.example/x',
        token: 't',
        authentication: { scheme: 'Bearer', credentials: 'c' }
      }),
      call('message/send', { message: { kind: 'message', messageId: 'm', role: 'user', parts: [{ kind: 'text', text: 'x' }] } }),
      json({ artifactId: 'a', parts: [{ text: 'x' }] })
    ]
  },
  run(bytes) {
    const body = answered(() => parseJson(bytes))
    if (body === undefined) return
    answered(() => idOf(body))
    answered(() => readParameters(body))
    answered(() => checkMessage(body as never))
    answered(() => checkArtifact(body as never))
    answered(() => checkArtifacts([body] as never))
    const envelope = answered(() => checkEnvelope(body))
    if (envelope === undefined) return
    if (isLegacySend(envelope.method)) answered(() => legacyRequest(envelope))
    answered(() => checkTenant(envelope.params))
    const method = answered(() => checkMethod(envelope.method))
    if (method !== undefined) answered(() => checkParams(method, envelope.params))
  }
}

/** `{method, params}` of the control API. */
const control: FuzzTarget = {
  name: 'control',
  bytesMax: 8_192,
  mutators: [mutateJson(Object.keys(CONTROL_PARAMS))],
  seeds: () => [
    ...Object.keys(CONTROL_PARAMS).map((method) => json({ method, params: {} })),
    json({ method: 'find', params: { query: 'org.agentnet/marketplace@1', limit: 3 } })
  ],
  run(bytes) {
    const call = jsonOf(bytes) as { method?: unknown; params?: unknown } | null | undefined
    if (typeof call !== 'object' || call === null) return
    const parsed = refusedOr(() => parseControlCall(call.method, call.params))
    if (parsed !== undefined) mustBe(Object.hasOwn(CONTROL_PARAMS, parsed.method), 'a method that is called is one of those there are')
  }
}

const ACTS = Object.keys(WORK_PARAMS) as WorkAct[]

/** `[act, body]` of the claim API. */
const work: FuzzTarget = {
  name: 'work',
  bytesMax: 4_096,
  mutators: [mutateJson([...ACTS, 'claim', 'text', 'message', 'artifacts', 'leaseMs', 'reason'])],
  seeds: () =>
    ACTS.map((act) => json([act, { claim: '0'.repeat(32), text: 'x', reason: 'y', leaseMs: 1_000, artifacts: [{ parts: [] }] }])),
  run(bytes) {
    const given = jsonOf(bytes)
    const [named, body] = Array.isArray(given) ? given : [ACTS[(bytes[0] ?? 0) % ACTS.length], given]
    const act = ACTS.find((one) => one === named) ?? 'complete'
    const parsed = refusedOr(() => parseWork(act, body)) as { text?: string; message?: never; artifacts?: never[] } | undefined
    if (parsed === undefined) return
    refusedOr(() => messageOf(parsed))
    refusedOr(() => artifactsOf(parsed))
  }
}

let directory: string | undefined

/** A settings file, YAML or JSON. */
const config: FuzzTarget = {
  name: 'config',
  bytesMax: 4_096,
  mutators: [
    mutateJson(['network', 'listen', 'bootstrap', 'http', 'port', 'queue', 'messagesMax', 'agents', 'edgeCloud', '7d', '0.0.0.0'])
  ],
  seeds: () => [
    text('network: lan\nlisten:\n  - /ip4/0.0.0.0/udp/4711/quic-v1\nqueue: { messagesMax: 10, ttlMax: 7d }\nhttp:\n  port: 0\n'),
    text('a: &x [1]\nb: *x\n? {c: d}\n: e\n!!binary AAAA: 1\n'),
    text('bootstrap: ["/ip4/127.0.0.1/udp/1/quic-v1/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf"]\nlogLevel: debug\n'),
    json({ network: 'off', http: { publicUrl: 'https://a.example' }, edgeCloud: {}, __proto__: { a: 1 } })
  ],
  run(bytes) {
    directory ??= mkdtempSync(join(tmpdir(), 'rookery-fuzz-'))
    const file = join(directory, 'config.yaml')
    writeFileSync(file, bytes)
    const layer = refusedOr(() => readConfigFile(file, 'required'))
    if (layer === undefined) return
    refusedOr(() => parseConfig(layer.settings as never))
    refusedOr(() => loadConfig({ dataDir: directory as string, env: {} }))
    for (const name of Object.keys(layer.settings)) layer.where([name])
  }
}

/** A scenario file of the simulator. */
const scenario: FuzzTarget = {
  name: 'scenario',
  bytesMax: 8_192,
  mutators: [],
  seeds: () => shippedNames().map((name) => text(shippedText(name) ?? '')),
  run(bytes) {
    refusedOr(() => parseScenario(textOf(bytes), 'scenario.yaml'))
  }
}

/** A backup or an exported agent, in clear: its frames and tags. */
const backup: FuzzTarget = {
  name: 'backup',
  bytesMax: 4_096,
  mutators: [],
  seeds: () => {
    const header = (more: object) =>
      JSON.stringify({ kind: 'backup', by: '0.1.0', of: 'x', madeAtMs: 1, sealed: 'open', salt: 'AA', prefix: 'AAAAAAAAAA', ...more })
    const file = (head: string, rest: number[]) =>
      Uint8Array.from([...text('ROOKBK01'), head.length >> 8, head.length & 255, ...text(head), ...rest])
    return [
      file(header({}), [0, 0, 0, 16, ...Array(16).fill(0)]),
      file(header({ prefix: '' }), [0, 0, 0, 17, ...Array(17).fill(1)]),
      file(header({ sealed: 'passphrase' }), [])
    ]
  },
  async run(bytes) {
    const cut = (bytes[0] ?? 0) % 64
    const source = async function* () {
      yield bytes.subarray(0, cut)
      yield bytes.subarray(cut)
    }
    const opened = await refusedOrLater(() => unseal(source(), { file: 'backup', passphrase: async () => undefined }))
    if (opened === undefined) return
    await refusedOrLater(async () => {
      let length = 0
      for await (const part of opened.text) length += part.length
      return length
    })
  }
}

const ROUTES = new EdgeRoutes(
  (['/', '/message:send', '/tasks/{id}', '/tasks/{id}:cancel', '/tasks/{id}/pushNotificationConfigs/{config}'] as const).flatMap((path) =>
    (['GET', 'POST'] as const).map((method) => ({ method, path, handle: async () => {} }))
  )
)

/** Texts that come from the network, from tools and from people: paths, addresses, targets, durations, neighbours. */
const texts: FuzzTarget = {
  name: 'texts',
  bytesMax: 2_048,
  mutators: [],
  seeds: () =>
    [
      '/agents/did%3Akey%3Az6Mk/tasks/a%2Fb:cancel?A2A-Version=1.0',
      'http://a.example/agents/x/message:send?x=%ff',
      '/ip4/127.0.0.1/udp/4711/quic-v1/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf',
      '/dns4/example.org/tcp/443/wss',
      'https://user:pw@[::ffff:127.0.0.1]:8080/x?y#z',
      '1h30m',
      '7d',
      'IP address       HW type     Flags       HW address            Mask     Device\n10.0.0.1 0x1 0x2 aa:bb:cc:dd:ee:ff * eth0\n',
      '10.0.0.1 dev eth0 lladdr aa:bb:cc:dd:ee:ff REACHABLE\nfe80::1 dev eth0 lladdr aa:bb:cc:dd:ee:ff router STALE\n',
      '1.0'
    ].map(text),
  run(bytes) {
    const given = textOf(bytes)
    for (const method of ['GET', 'POST', 'HEAD']) {
      const found = answered(() => ROUTES.find({ url: given, method } as never))
      if (found !== undefined)
        for (const value of Object.values(found.address.params)) mustBe(typeof value === 'string', 'a parameter is text')
    }
    refusedOr(() => parseAddr(given, 'addr'))
    refusedOr(() => parseBootstrap(given, 0))
    for (const targets of ['public', 'loopback', 'internal'] as const) refusedOr(() => readTarget(given, { targets, ports: [443, 8443] }))
    parseProcArp(given)
    parseIpNeigh(given)
    parseDurationMs(given)
    answered(() => readServiceParameters(given, given))
  }
}

export const targets: readonly FuzzTarget[] = [a2aJson, control, work, config, scenario, backup, texts]
