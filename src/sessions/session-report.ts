import { toHex } from '../../protocol/bytes.ts'
import { eidToDid } from '../../protocol/identity/eid.ts'
import { FLAG, hasFlag } from '../../protocol/session/flags.ts'
import type { SessionInfo } from './session.ts'
import { type ChannelDetails, contractDetails, epochDetails, type SessionDetails, type SessionVectors, vector } from './session-details.ts'
import type { SessionState } from './session-state.ts'

/** The facts of a session, for people and programs. */
export function infoOf(state: SessionState): SessionInfo {
  const { record, journal, ledger, contract, end, lastLoss, init } = state
  const epoch = state.epoch ?? state.lastEpoch
  const cookies = epoch?.cookies
  return {
    id: state.id,
    local: init.local.did,
    remote: eidToDid(record.remote),
    role: epoch?.role ?? (record.direction === 0 ? 'initiator' : 'responder'),
    state: state.phase,
    transport: epoch?.connection.transport ?? 'none',
    remoteAddr: epoch?.connection.remoteAddr ?? record.address.addrs[0] ?? '',
    handshakeMs: epoch?.handshakeMs ?? 0,
    roundTrips: epoch?.roundTrips ?? 0,
    cookies: { initiator: cookies === undefined ? '' : toHex(cookies.i), responder: cookies === undefined ? '' : toHex(cookies.r) },
    txSeq: journal.tx.seq.toString(),
    txAcked: journal.acked.seq.toString(),
    rxSeq: ledger.run.seq.toString(),
    openedAtMs: record.openedAtMs,
    unacked: journal.length,
    resumes: state.resumes,
    activeAtMs: record.activeAtMs,
    exclusive: hasFlag(record.flags, FLAG.EXCLUSIVE),
    ...(contract === undefined ? {} : { contract: contractDetails(contract, init.clock.monotonicMs()) }),
    ...(end === undefined ? {} : { endReason: end.reason }),
    ...(lastLoss === undefined ? {} : { lastLoss })
  }
}

export function vectorsOf({ journal, ledger }: SessionState): SessionVectors {
  return { tx: vector(journal.tx), acked: vector(journal.acked), rx: vector(ledger.run) }
}

/** Everything about it; a ping is answered first, where a connection carries it. @param served - channels that have a handler */
export async function detailsOf(state: SessionState, served: Iterable<number>): Promise<SessionDetails> {
  const { epoch, init } = state
  const rttMs = await epoch?.ping()
  return {
    ...infoOf(state),
    ...(rttMs === undefined ? {} : { rttMs }),
    ...(epoch?.isOpen === true ? { epoch: epochDetails(epoch, init.clock.monotonicMs()) } : {}),
    vectors: vectorsOf(state),
    channels: channelsOf(state, served)
  }
}

function channelsOf({ journal, ledger, epoch }: SessionState, served: Iterable<number>): ChannelDetails[] {
  const unacked = new Map<number, number>()
  for (const { item } of journal.entries) unacked.set(item.channel, (unacked.get(item.channel) ?? 0) + 1)
  const sent = journal.heads
  const received = ledger.heads
  const numbers = new Set([...sent.keys(), ...received.keys(), ...unacked.keys(), ...served])
  return [...numbers]
    .sort((a, b) => a - b)
    .map((channel) => ({
      channel,
      sent: String(sent.get(channel)?.seq ?? 0n),
      received: String(received.get(channel)?.seq ?? 0n),
      unacked: unacked.get(channel) ?? 0,
      waitingBytes: epoch?.waitingBytes(channel) ?? 0
    }))
}
