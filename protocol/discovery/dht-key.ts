import { concat, utf8 } from '../bytes.ts'
import { ProtocolError } from '../errors.ts'
import { type Eid, eid as eidOf } from '../identity/eid.ts'
import type { DsId, GpCoordinate } from './names.ts'

/** A DHT key taken apart (protocol/README.md §3). */
export type DhtKey =
  | { namespace: 'eid'; eid: Eid }
  | { namespace: 'ds'; dsid: DsId }
  | { namespace: 'dsj'; dsid: DsId; eid: Eid }
  | { namespace: 'gp'; coordinate: GpCoordinate }
  | { namespace: 'mail'; eid: Eid }

const PREFIXES = { eid: utf8('/eid/'), ds: utf8('/ds/'), dsj: utf8('/dsj/'), gp: utf8('/gp/'), mail: utf8('/mail/') } as const
const BODY_BYTES = { eid: 32, ds: 32, dsj: 64, gp: 32, mail: 32 } as const
const NAMESPACES = ['eid', 'ds', 'dsj', 'gp', 'mail'] as const

/** Where an agent's locator lies: `/eid/` ‖ EID. */
export function locatorKey(eid: Eid): Uint8Array {
  return concat([PREFIXES.eid, eid])
}

/** Where a space's announcement lies: `/ds/` ‖ DS_ID. */
export function announceKey(dsid: DsId): Uint8Array {
  return concat([PREFIXES.ds, dsid])
}

/** Where an agent's join of a space lies: `/dsj/` ‖ DS_ID ‖ EID. */
export function joinKey(dsid: DsId, eid: Eid): Uint8Array {
  return concat([PREFIXES.dsj, dsid, eid])
}

/** Where a global point lies: `/gp/` ‖ coordinate. */
export function gpKey(coordinate: GpCoordinate): Uint8Array {
  return concat([PREFIXES.gp, coordinate])
}

/** Where the keepers of an agent's mail are named: `/mail/` ‖ EID. */
export function mailKey(eid: Eid): Uint8Array {
  return concat([PREFIXES.mail, eid])
}

/** @throws ProtocolError `DHT_KEY` for another namespace or length; the parts are copies */
export function parseDhtKey(key: Uint8Array): DhtKey {
  const namespace = NAMESPACES.find((name) => PREFIXES[name].every((byte, i) => key[i] === byte))
  if (namespace === undefined)
    throw new ProtocolError('DHT_KEY', 'the key starts with none of /eid/, /ds/, /dsj/, /gp/, /mail/', { field: 'key' })
  const body = key.slice(PREFIXES[namespace].length)
  if (body.length !== BODY_BYTES[namespace]) {
    throw new ProtocolError('DHT_KEY', `/${namespace}/ is followed by ${BODY_BYTES[namespace]} bytes, not ${body.length}`, { field: 'key' })
  }
  switch (namespace) {
    case 'eid':
    case 'mail':
      return { namespace, eid: eidOf(body) }
    case 'ds':
      return { namespace, dsid: body as DsId }
    case 'dsj':
      return { namespace, dsid: body.slice(0, 32) as DsId, eid: eidOf(body.slice(32)) }
    case 'gp':
      return { namespace, coordinate: body as GpCoordinate }
  }
}
