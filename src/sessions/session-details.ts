import { toHex } from '../../protocol/bytes.ts'
import type { ChainPoint } from '../../protocol/session/chain.ts'
import type { ContractMeter, ContractUsage } from '../../protocol/session/contract.ts'
import { type ContractView, viewOf } from '../config/contract.ts'
import type { LiveSession } from './live-session.ts'
import type { SessionInfo } from './session.ts'

/** A direction at a moment: its newest transaction and the chain after it, in hex. */
export interface VectorDetails {
  seq: string
  hash: string
}

/** Ours sent, of these acknowledged, theirs received and synced. */
export interface SessionVectors {
  tx: VectorDetails
  acked: VectorDetails
  rx: VectorDetails
}

export interface ChannelDetails {
  channel: number
  /** the newest transaction on the channel, 0 for none */
  sent: string
  received: string
  /** numbered, and not acknowledged by the peer */
  unacked: number
  /** handed over, and not handled yet: what holds the peer's window back */
  waitingBytes: number
}

/** The contract in force, and what was used of it. */
export interface ContractDetails {
  block: ContractView
  usage: ContractUsage
}

/** All that there is to say of a session. */
export interface SessionDetails extends SessionInfo {
  /** of a ping that was just answered; absent without a connection */
  rttMs?: number
  /** the connection that carries it now: its age, keys' generation and streams */
  epoch?: { ageMs: number; keyGeneration: number; streams: number }
  vectors: SessionVectors
  channels: ChannelDetails[]
}

export function vector({ seq, hash }: ChainPoint): VectorDetails {
  return { seq: seq.toString(), hash: toHex(hash) }
}

/** @param nowMs - monotonic */
export function contractDetails(meter: ContractMeter, nowMs: number): ContractDetails {
  return { block: viewOf(meter.block), usage: meter.usage(nowMs) }
}

/** @param nowMs - monotonic */
export function epochDetails({ readyAtMs = 0, keyGeneration, streams }: LiveSession, nowMs: number): SessionDetails['epoch'] & object {
  return { ageMs: Math.round(nowMs - readyAtMs), keyGeneration, streams }
}
