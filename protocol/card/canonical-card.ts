import { canonicalJson } from '../canonical-json.ts'
import { ProtocolError } from '../errors.ts'

/**
 * How a field of the card's messages is carried in ProtoJSON (A2A 1.0, 8.4.1). `required` is there even if it is empty; `optional` is there when it was
 * set, be it to its default; `implicit` is there unless it has its default.
 */
type Presence = 'required' | 'optional' | 'implicit'
type Kind = 'text' | 'flag' | 'texts' | 'any' | { one: () => Message } | { many: () => Message } | { map: () => Message } | 'textMap'
type Message = { readonly [name: string]: readonly [Presence, Kind] }

const PROVIDER: Message = { url: ['required', 'text'], organization: ['required', 'text'] }
const INTERFACE: Message = {
  url: ['required', 'text'],
  protocolBinding: ['required', 'text'],
  tenant: ['implicit', 'text'],
  protocolVersion: ['required', 'text']
}
const EXTENSION: Message = {
  uri: ['implicit', 'text'],
  description: ['implicit', 'text'],
  required: ['implicit', 'flag'],
  params: ['optional', 'any']
}
const CAPABILITIES: Message = {
  streaming: ['optional', 'flag'],
  pushNotifications: ['optional', 'flag'],
  extensions: ['implicit', { many: () => EXTENSION }],
  extendedAgentCard: ['optional', 'flag'],
  skillQuery: ['optional', 'flag']
}
const STRING_LIST: Message = { list: ['implicit', 'texts'] }
const REQUIREMENT: Message = { schemes: ['implicit', { map: () => STRING_LIST }] }
const SKILL: Message = {
  id: ['required', 'text'],
  name: ['required', 'text'],
  description: ['required', 'text'],
  tags: ['required', 'texts'],
  examples: ['implicit', 'texts'],
  inputModes: ['implicit', 'texts'],
  outputModes: ['implicit', 'texts'],
  securityRequirements: ['implicit', { many: () => REQUIREMENT }]
}
const DESCRIBED: Message = { description: ['implicit', 'text'] }
const DEPRECATED_FLOW: Message = {
  authorizationUrl: ['implicit', 'text'],
  tokenUrl: ['implicit', 'text'],
  refreshUrl: ['implicit', 'text'],
  scopes: ['implicit', 'textMap']
}
const TOKEN_FLOW: Message = { tokenUrl: ['required', 'text'], refreshUrl: ['implicit', 'text'], scopes: ['required', 'textMap'] }
const FLOWS: Message = {
  authorizationCode: [
    'optional',
    { one: () => ({ ...TOKEN_FLOW, authorizationUrl: ['required', 'text'], pkceRequired: ['implicit', 'flag'] }) }
  ],
  clientCredentials: ['optional', { one: () => TOKEN_FLOW }],
  implicit: ['optional', { one: () => DEPRECATED_FLOW }],
  password: ['optional', { one: () => DEPRECATED_FLOW }],
  deviceCode: ['optional', { one: () => ({ ...TOKEN_FLOW, deviceAuthorizationUrl: ['required', 'text'] }) }]
}
const SCHEME: Message = {
  apiKeySecurityScheme: ['optional', { one: () => ({ ...DESCRIBED, location: ['required', 'text'], name: ['required', 'text'] }) }],
  httpAuthSecurityScheme: ['optional', { one: () => ({ ...DESCRIBED, scheme: ['required', 'text'], bearerFormat: ['implicit', 'text'] }) }],
  oauth2SecurityScheme: [
    'optional',
    { one: () => ({ ...DESCRIBED, flows: ['required', { one: () => FLOWS }], oauth2MetadataUrl: ['implicit', 'text'] }) }
  ],
  openIdConnectSecurityScheme: ['optional', { one: () => ({ ...DESCRIBED, openIdConnectUrl: ['required', 'text'] }) }],
  mtlsSecurityScheme: ['optional', { one: () => DESCRIBED }]
}
const CARD: Message = {
  name: ['required', 'text'],
  description: ['required', 'text'],
  supportedInterfaces: ['required', { many: () => INTERFACE }],
  provider: ['optional', { one: () => PROVIDER }],
  version: ['required', 'text'],
  documentationUrl: ['optional', 'text'],
  capabilities: ['required', { one: () => CAPABILITIES }],
  securitySchemes: ['implicit', { map: () => SCHEME }],
  securityRequirements: ['implicit', { many: () => REQUIREMENT }],
  defaultInputModes: ['required', 'texts'],
  defaultOutputModes: ['required', 'texts'],
  skills: ['required', { many: () => SKILL }],
  iconUrl: ['optional', 'text']
}

/**
 * What a card's signatures are over: its ProtoJSON without `signatures`, each field there or not as its presence demands, in RFC 8785 text. Members
 * that this version of A2A does not know are covered as they came, so nothing in a card goes unsigned.
 * @param card - a card as it was received, in ProtoJSON
 * @throws ProtocolError `FIELD_INVALID`: a field of another type than A2A gives it, or no JSON
 */
export function canonicalCard(card: unknown): string {
  const { signatures: _, ...rest } = objectOf(card, 'card')
  return canonicalJson(messageOf(CARD, rest, 'card'))
}

function messageOf(message: Message, value: unknown, at: string): Record<string, unknown> {
  const given = objectOf(value, at)
  const out: [string, unknown][] = Object.entries(given).filter(([name]) => !Object.hasOwn(message, name))
  for (const [name, [presence, kind]] of Object.entries(message)) {
    const raw = Object.hasOwn(given, name) ? given[name] : undefined
    // ProtoJSON reads null as unset.
    const isSet = raw !== undefined && raw !== null
    if (!isSet && presence !== 'required') continue
    const field = isSet ? fieldOf(kind, raw, `${at}.${name}`) : emptyOf(kind)
    if (presence !== 'implicit' || !isEmpty(field)) out.push([name, field])
  }
  return Object.fromEntries(out)
}

function fieldOf(kind: Kind, value: unknown, at: string): unknown {
  const fail = (what: string) => new ProtocolError('FIELD_INVALID', `${at} is not ${what}`, { field: at })
  if (kind === 'any') return value
  if (kind === 'text' || kind === 'flag') {
    if (typeof value !== (kind === 'text' ? 'string' : 'boolean')) throw fail(kind === 'text' ? 'a text' : 'true or false')
    return value
  }
  if (kind === 'texts') {
    if (!Array.isArray(value) || !value.every((one) => typeof one === 'string')) throw fail('a list of texts')
    return value
  }
  if (kind === 'textMap') {
    if (!Object.values(objectOf(value, at)).every((one) => typeof one === 'string')) throw fail('a map to texts')
    return value
  }
  if ('one' in kind) return messageOf(kind.one(), value, at)
  if ('many' in kind) {
    if (!Array.isArray(value)) throw fail('a list')
    return value.map((one, i) => messageOf(kind.many(), one, `${at}[${i}]`))
  }
  const entries = Object.entries(objectOf(value, at)).map(([name, one]) => [name, messageOf(kind.map(), one, `${at}.${name}`)])
  return Object.fromEntries(entries)
}

function emptyOf(kind: Kind): unknown {
  if (kind === 'text') return ''
  if (kind === 'flag') return false
  if (kind === 'texts' || (typeof kind === 'object' && 'many' in kind)) return []
  return typeof kind === 'object' && 'one' in kind ? messageOf(kind.one(), {}, '') : {}
}

function isEmpty(value: unknown): boolean {
  if (value === '' || value === false) return true
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}

function objectOf(value: unknown, at: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw new ProtocolError('FIELD_INVALID', `${at} is not an object`, { field: at })
}
