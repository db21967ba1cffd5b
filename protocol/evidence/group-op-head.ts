import { concat, equals, Reader } from '../bytes.ts'
import type { CryptoProvider } from '../crypto/provider.ts'
import { ProtocolError } from '../errors.ts'
import { context } from '../identity/contexts.ts'
import { type Eid, eid } from '../identity/eid.ts'

/** gid 16 ‖ epoch u32 ‖ writer 32 ‖ run 16 ‖ n u64 ‖ g_n 32 ‖ sig 64: what of a group op is signed, with its signature (protocol/README.md §6, Groups). */
export const GROUP_OP_HEAD_BYTES = 172
export const GROUP_OP_SIGNED_BYTES = 108
const GROUP_OP_CONTEXT = context('group-op')

export interface GroupOpHead {
  /** 16 bytes */
  gid: Uint8Array
  epoch: number
  writer: Eid
  /** 16 random bytes of the writer's process start */
  run: Uint8Array
  n: bigint
  /** chain of the run after n, 32 bytes */
  gn: Uint8Array
}

/**
 * Reads the first 172 bytes of a group op and checks the writer's signature.
 * @param bytes - exactly 172 bytes; the fields are views of it
 * @throws ProtocolError `LENGTH`, `SIGNATURE_INVALID`
 */
export function openGroupOpHead(crypto: CryptoProvider, bytes: Uint8Array): GroupOpHead {
  if (bytes.length !== GROUP_OP_HEAD_BYTES) {
    throw new ProtocolError('LENGTH', `a group op's head is ${GROUP_OP_HEAD_BYTES} bytes, not ${bytes.length}`, { field: 'group-op' })
  }
  const reader = new Reader(bytes)
  const head = {
    gid: reader.bytes(16, 'gid'),
    epoch: reader.u32('epoch'),
    writer: eid(reader.bytes(32, 'writer')),
    run: reader.bytes(16, 'run'),
    n: reader.u64('n'),
    gn: reader.bytes(32, 'g_n')
  }
  const signed = concat([GROUP_OP_CONTEXT, bytes.subarray(0, GROUP_OP_SIGNED_BYTES)])
  if (!crypto.ed25519.verify(head.writer, signed, reader.bytes(64, 'sig'))) {
    throw new ProtocolError('SIGNATURE_INVALID', "the group op's signature does not verify", { field: 'group-op.sig' })
  }
  return head
}

/** One place in one run of one group: two different heads of it contradict each other. */
export function samePlace(a: GroupOpHead, b: GroupOpHead): boolean {
  return a.n === b.n && equals(a.gid, b.gid) && equals(a.run, b.run) && equals(a.writer, b.writer)
}
