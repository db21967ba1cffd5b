import { compare, concat, equals } from '../bytes.ts'
import { CborFields, type CborValue, decodeCbor, encodeCbor } from '../cbor.ts'
import type { CryptoProvider, Signer } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import { type Eid, type EidHex, eid, eidHex } from '../identity/eid.ts'
import { DGK_BYTES, GID_BYTES, GROUP_MEMBERS_MAX, GROUP_NAME_BYTES_MAX } from './bounds.ts'

/** The item that carries it has at most 4,096 bytes, 52 of them in front of it. */
export const STATEMENT_BYTES_MAX = 4_044
export const EPOCH_MAX = 0xffff_ffff
const TS_SEC_MAX = Math.floor(Number.MAX_SAFE_INTEGER / 1_000)
const SIGNATURE_BYTES = 64
const STATEMENT_CONTEXT = context('group')
const KEY_CONTEXT = context('group-dgk')

export interface GroupMemberEntry {
  readonly eid: Eid
  /** the epoch with which its present membership began: what it wrote before belongs to no one */
  readonly since: number
  /** `snapshot`: writers publish their state again for it, under an epoch that it can read; `none`: it sees what is published from then on */
  readonly history: 'snapshot' | 'none'
}

/** A group's trust list at one epoch, by the will of its owner (protocol/README.md §6, Groups). */
export interface GroupStatement {
  /** 16 random bytes */
  readonly gid: Uint8Array
  readonly owner: Eid
  /** 1 … 2^32 − 1, one higher at every change and every new key */
  readonly epoch: number
  /** for people */
  readonly name: string
  /** rising by EID; the owner is one of them */
  readonly members: readonly GroupMemberEntry[]
  /** what the epoch's key hashes to ({@link keyCommitment}): so any member may pass the key on */
  readonly key: Uint8Array
  /** seconds since the Unix epoch */
  readonly ts: number
}

/** A statement whose signature was checked, as it came. */
export interface SignedStatement extends GroupStatement {
  readonly bytes: Uint8Array
}

/** H(`rookery/v1/group-dgk` ‖ 0x00 ‖ gid ‖ u32 epoch ‖ DGK) */
export function keyCommitment(crypto: CryptoProvider, gid: Uint8Array, epoch: number, dgk: Uint8Array): Uint8Array {
  const number = new Uint8Array(4)
  new DataView(number.buffer).setUint32(0, epoch)
  return crypto.sha256(KEY_CONTEXT, gid, number, dgk)
}

/**
 * CBOR `[payload, sig]`, payload `{v, gid, owner, epoch, name, members, key, ts}`, members a list of `[eid, since, history]`, sig by the owner over
 * `rookery/v1/group` ‖ 0x00 ‖ payload.
 * @throws RangeError where the statement could not be read back: our own mistake
 */
export function signStatement(signer: Signer, statement: GroupStatement): Uint8Array {
  const { gid, owner, epoch, name, members, key, ts } = statement
  if (!equals(signer.publicKey, owner)) throw new TypeError('a group statement is signed by its owner')
  const payload = encodeCbor({
    v: 1,
    gid,
    owner,
    epoch,
    name,
    members: [...members].sort((a, b) => compare(a.eid, b.eid)).map(({ eid, since, history }) => [eid, since, history === 'snapshot']),
    key,
    ts
  })
  const bytes = encodeCbor([payload, signer.sign(concat([STATEMENT_CONTEXT, payload]))])
  if (bytes.length > STATEMENT_BYTES_MAX || members.length > GROUP_MEMBERS_MAX) throw new RangeError('the group statement is too large')
  return bytes
}

/**
 * Shape first, then the signature of the owner that it names. Whether that one owns the group is for the caller to know.
 * @throws ProtocolError `TOO_LARGE`, `CBOR_INVALID`, `CBOR_NOT_CANONICAL`, `FIELD_…`, `SIGNATURE_INVALID`
 */
export function openStatement(crypto: CryptoProvider, bytes: Uint8Array): SignedStatement {
  if (bytes.length > STATEMENT_BYTES_MAX) {
    throw new ProtocolError('TOO_LARGE', `a group statement has at most ${STATEMENT_BYTES_MAX} bytes, not ${bytes.length}`, {
      field: 'group'
    })
  }
  const value = decodeCbor(bytes)
  if (!Array.isArray(value) || value.length !== 2) throw invalid('group', 'a list of payload and signature')
  const [payload, sig] = value
  if (!(payload instanceof Uint8Array)) throw invalid('group.payload', 'bytes')
  if (!(sig instanceof Uint8Array) || sig.length !== SIGNATURE_BYTES) throw invalid('group.sig', `${SIGNATURE_BYTES} bytes`)
  const fields = new CborFields(decodeCbor(payload), 'group')
  fields.uint('v', { min: 1, max: 1 })
  const gid = fields.bytes('gid', { length: GID_BYTES }).slice()
  const owner = eid(fields.bytes('owner', { length: 32 }).slice())
  const epoch = fields.uint('epoch', { min: 1, max: EPOCH_MAX })
  const name = fields.text('name', { bytesMax: GROUP_NAME_BYTES_MAX })
  const members = fields.list('members', { min: 1, max: GROUP_MEMBERS_MAX }, (item) => memberEntry(item, epoch))
  const key = fields.bytes('key', { length: 32 }).slice()
  const ts = fields.uint('ts', { max: TS_SEC_MAX })
  fields.end()
  for (let i = 1; i < members.length; i++) {
    if (compare((members[i - 1] as GroupMemberEntry).eid, (members[i] as GroupMemberEntry).eid) >= 0) {
      throw invalid('group.members', 'rising by EID, each once')
    }
  }
  if (!members.some((one) => equals(one.eid, owner))) throw invalid('group.members', 'a list that holds the owner')
  if (!crypto.ed25519.verify(owner, concat([STATEMENT_CONTEXT, payload]), sig)) {
    throw new ProtocolError('SIGNATURE_INVALID', "the group statement's signature does not verify", { field: 'group.sig' })
  }
  return { gid, owner, epoch, name, members, key, ts, bytes: bytes.slice() }
}

function memberEntry(item: CborValue, epoch: number): GroupMemberEntry {
  if (!Array.isArray(item) || item.length !== 3) throw invalid('group.members', 'a list of EID, epoch and history each')
  const [key, since, history] = item
  if (!(key instanceof Uint8Array) || key.length !== 32) throw invalid('group.members', 'a list of entries that begin with 32 bytes')
  if (typeof since !== 'number' || since < 1 || since > epoch) throw invalid('group.members', 'since an epoch from 1 to its own')
  if (typeof history !== 'boolean') throw invalid('group.members', 'a list of entries that end with true or false')
  return { eid: eid(key.slice()), since, history: history ? 'snapshot' : 'none' }
}

function invalid(field: string, expected: string): ProtocolError {
  return new ProtocolError('FIELD_INVALID', `a group statement's ${field} is not ${expected}`, { field })
}

/** Since which epoch somebody has been a member; undefined: it is none. */
export function memberSince(statement: GroupStatement, who: Uint8Array): number | undefined {
  return statement.members.find((one) => equals(one.eid, who))?.since
}

/** What the owner changes. */
export interface TrustChange {
  readonly add?: readonly Eid[]
  readonly remove?: readonly Eid[]
  /** who goes by another EID now: for the group a member that left and one that is new */
  readonly renamed?: readonly { readonly from: Eid; readonly to: Eid }[]
  /** what those who are added see of what was written before; absent: `none` */
  readonly history?: 'snapshot' | 'none'
}

/**
 * The next statement of a group: one epoch on, under another key, with the changes made. Nothing changed is a change of key alone.
 * @param dgk - 32 fresh random bytes
 * @param before - undefined: a new group of this gid, name and owner
 * @throws ProtocolError `RANGE` (field `members`: more than {@link GROUP_MEMBERS_MAX}; field `epoch`: used up; field `owner`: removed)
 */
export function nextStatement(
  crypto: CryptoProvider,
  signer: Signer,
  before: GroupStatement | { gid: Uint8Array; name: string },
  change: TrustChange,
  { dgk, tsSec }: { dgk: Uint8Array; tsSec: number }
): SignedStatement {
  const owner = eid(signer.publicKey.slice())
  const held = 'epoch' in before ? before : undefined
  const epoch = (held?.epoch ?? 0) + 1
  if (epoch > EPOCH_MAX) throw new ProtocolError('RANGE', 'the group has used up its epochs', { field: 'epoch' })
  const members = new Map<EidHex, GroupMemberEntry>((held?.members ?? []).map((one) => [eidHex(one.eid), one]))
  for (const { from, to } of change.renamed ?? []) {
    if (members.delete(eidHex(from))) members.set(eidHex(to), { eid: to, since: epoch, history: 'snapshot' })
  }
  for (const gone of change.remove ?? []) {
    if (equals(gone, owner)) throw new ProtocolError('RANGE', 'the owner stays a member of its group', { field: 'owner' })
    members.delete(eidHex(gone))
  }
  for (const one of [owner, ...(change.add ?? [])]) {
    if (!members.has(eidHex(one))) members.set(eidHex(one), { eid: one, since: epoch, history: change.history ?? 'none' })
  }
  if (members.size > GROUP_MEMBERS_MAX) {
    throw new ProtocolError('RANGE', `a group has at most ${GROUP_MEMBERS_MAX} members, not ${members.size}`, { field: 'members' })
  }
  const { gid, name } = before
  const statement: GroupStatement = {
    gid,
    owner,
    epoch,
    name,
    members: [...members.values()].sort((a, b) => compare(a.eid, b.eid)),
    key: keyCommitment(crypto, gid, epoch, dgk),
    ts: tsSec
  }
  return { ...statement, bytes: signStatement(signer, statement) }
}

/** @throws ProtocolError `LENGTH` */
export function checkDgk(dgk: Uint8Array): void {
  if (dgk.length !== DGK_BYTES) throw new ProtocolError('LENGTH', `a group key is ${DGK_BYTES} bytes, not ${dgk.length}`, { field: 'dgk' })
}
