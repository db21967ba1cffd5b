import type { SessionInfo } from '../../sessions/session.ts'
import type { ContractDetails, SessionDetails } from '../../sessions/session-details.ts'
import { age, bytesText, type Output } from '../output.ts'

const HASH_CHARS = 16

/** Column heads of {@link sessionRow}. */
export const SESSION_HEAD = ['ID', 'STATE', 'TRANSPORT', 'SENT/ACKED', 'UNACKED', 'RECEIVED', 'REMOTE']

export function sessionRow(one: SessionInfo): string[] {
  const { id, state, transport, txSeq, txAcked, unacked, rxSeq, remote } = one
  return [id, state, transport, `${txSeq}/${txAcked}`, String(unacked), rxSeq, remote]
}

/** What `session open` tells. */
export function infoLines({ paint }: Output, info: SessionInfo): string[] {
  const lines = [
    `${paint.bold(info.id)}  ${info.state}${info.endReason === undefined ? '' : ` (${info.endReason})`}`,
    `with       ${info.remote}`,
    `as         ${info.local}, ${info.role}`,
    `over       ${info.transport}, ${info.remoteAddr}`,
    `handshake  ${info.handshakeMs.toFixed(1)} ms, ${info.roundTrips} round trips`,
    `cookies    initiator ${info.cookies.initiator}, responder ${info.cookies.responder}`,
    ...(info.exclusive ? ['state      exclusive: shared with no other session'] : []),
    `sequence   sent ${info.txSeq} (acked ${info.txAcked}), received ${info.rxSeq}`
  ]
  if (info.resumes > 0) lines.push(`resumed    ${info.resumes} times${info.lastLoss === undefined ? '' : `, last after: ${info.lastLoss}`}`)
  return lines
}

/** What `session show` and `session watch ID` tell. @param nowMs - Unix ms */
export function detailLines(out: Output, details: SessionDetails, nowMs: number): string[] {
  const { vectors, epoch, rttMs, channels, contract } = details
  const point = ({ seq, hash }: { seq: string; hash: string }) => `${seq.padStart(6)}  ${hash.slice(0, HASH_CHARS)}…`
  const lines = [
    ...infoLines(out, details),
    `age        opened ${age(nowMs - details.openedAtMs)} ago, active ${age(nowMs - details.activeAtMs)} ago`,
    epoch === undefined
      ? 'epoch      none: no connection carries it'
      : `epoch      ${age(epoch.ageMs)} old, key generation ${epoch.keyGeneration}, ${epoch.streams} streams`,
    `rtt        ${rttMs === undefined ? 'unknown' : `${rttMs.toFixed(1)} ms`}`,
    `unacked    ${details.unacked}`,
    `vector tx  ${point(vectors.tx)}`,
    `    acked  ${point(vectors.acked)}`,
    `       rx  ${point(vectors.rx)}`
  ]
  for (const { channel, sent, received, unacked, waitingBytes } of channels) {
    lines.push(`channel    ${channel}: sent ${sent}, received ${received}, unacked ${unacked}, waiting ${bytesText(waitingBytes)}`)
  }
  return [...lines, ...(contract === undefined ? ['contract   none'] : contractLines(contract))]
}

/** Each limit beside what both sides used of it. */
function contractLines({ block, usage }: ContractDetails): string[] {
  const { sent, received } = usage
  const both = (of: (side: typeof sent) => number, text: (value: number) => string = String) =>
    `sent ${text(of(sent))}, received ${text(of(received))}`
  return [
    `contract   site ${block.site}, region ${block.region}, scopes ${block.scopes.join(' ') || 'none'}`,
    `  seconds  ${usage.seconds} of ${block.sessionSecondsMax}, ${usage.secondsLeft} left`,
    `  rate     ${both((side) => side.messagesLastMinute)} in the last minute, of ${block.messagesPerMinuteMax} each`,
    `  payload  largest ${both((side) => side.payloadBytesLargest, bytesText)}, of ${bytesText(block.payloadBytesMax)}`,
    `  total    ${both((side) => side.messages)} messages; ${both((side) => side.payloadBytes, bytesText)}`,
    `  stored   ${both((side) => side.storedBytes, bytesText)}, of ${bytesText(block.storedBytesMax)} each`,
    `  tasks    ${both((side) => side.concurrentTasks)} at once, of ${block.concurrentTasksMax} each`,
    `  ese      ${both((side) => side.eseBytes, bytesText)}, of ${bytesText(block.eseBytesMax)} each`
  ]
}
