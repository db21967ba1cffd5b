import type { ProtocolError } from '../../protocol/errors.ts'
import { RookeryError } from '../errors.ts'

export function groupUnknown(ref: string): RookeryError {
  return new RookeryError('GROUP_UNKNOWN', `this agent holds no group "${ref.slice(0, 80)}"`, {
    kind: 'notFound',
    field: 'group',
    value: ref.slice(0, 80),
    remedy: 'list them with `rookery group show`'
  })
}

export function groupAmbiguous(name: string, ids: readonly string[]): RookeryError {
  return new RookeryError('GROUP_AMBIGUOUS', `${ids.length} groups have the name "${name.slice(0, 64)}"`, {
    kind: 'usage',
    field: 'group',
    value: name.slice(0, 64),
    remedy: 'name it by its id',
    data: { ids }
  })
}

export function groupsFull(max: number): RookeryError {
  return new RookeryError('GROUPS_FULL', `the agent holds ${max} groups`, {
    kind: 'refused',
    field: 'groupsMax',
    value: max,
    remedy: 'leave one first'
  })
}

export function notOwner(owner: string): RookeryError {
  return new RookeryError('GROUP_NOT_OWNER', 'only the owner of a group changes its members and keys', {
    kind: 'refused',
    field: 'group',
    remedy: `ask ${owner}`,
    data: { owner }
  })
}

export function groupFull(max: number): RookeryError {
  return new RookeryError('GROUP_FULL', `a group has at most ${max} members`, {
    kind: 'refused',
    field: 'membersMax',
    value: max,
    remedy: 'remove one first, or make a second group'
  })
}

export function memberUnknown(did: string): RookeryError {
  return new RookeryError('GROUP_MEMBER_UNKNOWN', `${did} is no member of the group`, {
    kind: 'notFound',
    field: 'did',
    value: did,
    remedy: 'see the members with `rookery group show`'
  })
}

export function ownerStays(): RookeryError {
  return new RookeryError('GROUP_OWNER_STAYS', 'the owner of a group cannot leave it, and cannot be removed', {
    kind: 'refused',
    field: 'did',
    remedy: 'remove the other members instead'
  })
}

export function groupOver(): RookeryError {
  return new RookeryError('GROUP_OVER', 'this agent is no member of the group any more', { kind: 'refused', field: 'group' })
}

export function keyMissing(): RookeryError {
  return new RookeryError('GROUP_KEY_MISSING', "nobody who has the group's key was reached", {
    kind: 'unavailable',
    field: 'group',
    remedy: 'try again when the owner or another member is online'
  })
}

export function nameInvalid(name: string): RookeryError {
  return new RookeryError('GROUP_NAME_INVALID', 'a group has a name of 1 to 64 bytes', {
    kind: 'usage',
    field: 'name',
    value: name.slice(0, 80),
    remedy: 'choose a shorter one'
  })
}

/** What the writer's state, or a batch, may not be. */
export function writeRefused(cause: ProtocolError): RookeryError {
  return new RookeryError('GROUP_WRITE_REFUSED', `nothing was written: ${cause.message}`, {
    kind: 'refused',
    ...(cause.field === undefined ? {} : { field: cause.field }),
    remedy: 'write less, or delete something first',
    cause
  })
}
