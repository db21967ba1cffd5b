import type { CryptoProvider, Signer } from '../../protocol/crypto/provider.ts'
import { ProtocolError } from '../../protocol/errors.ts'
import type { Eid } from '../../protocol/identity/eid.ts'
import { judgeOffer } from '../../protocol/session/contract-policy.ts'
import { cookie } from '../../protocol/session/cookie.ts'
import type { Established } from '../../protocol/session/established.ts'
import { FLAG } from '../../protocol/session/flags.ts'
import { FRAME } from '../../protocol/session/header.ts'
import { Initiator, type InitiatorStep } from '../../protocol/session/initiator.ts'
import { decodeSfc, type SfcBlock } from '../../protocol/session/sfc.ts'
import { RookeryError } from '../errors.ts'
import type { ByteStream } from '../net/byte-stream.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import { readSessionFrame } from './frame-reader.ts'
import { peerIds } from './peer-bytes.ts'
import { closeName, handshakeFailed } from './session-errors.ts'

export interface InitiateComponents {
  crypto: CryptoProvider
  clock: Clock
  random: Random
  /** our PeerId, text form */
  self: string
}

export interface Initiated {
  established: Established
  /** to be sent at once; READY may follow in the same write */
  ack: Uint8Array
  /** when the first INIT was sent, monotonic */
  startedMs: number
  /** those of INIT and NEG: 1, or 2 after a RETRY */
  roundTrips: number
}

/** The session that an exchange takes up. */
export interface ResumePurpose {
  /** 16 bytes */
  sid: Uint8Array
  /** of the first handshake: SFC, EXCLUSIVE, GROUP */
  flags: number
  /** the contract block, byte for byte */
  sfc: Uint8Array | undefined
}

/** What is asked of a session that does not exist yet. */
export interface NewSessionWishes {
  needs: Partial<SfcBlock> | undefined
  exclusive: boolean | undefined
  /** `named`: READY tells of the groups that the two share, where the peer's does, too */
  groups?: 'named' | 'none' | undefined
}

type Event = { kind: 'frame'; frame: Uint8Array } | { kind: 'wake' } | { kind: 'failed'; error: unknown }

/**
 * Runs INIT and NEG over a stream, up to the ACK that is to be sent.
 * @param options.needs - asks for a contract that grants at least this
 * @param options.exclusive - asks for an ESE pair of its own
 * @throws RookeryError `HANDSHAKE_FAILED` (data.reason: a ProtocolErrorCode, or what the peer's CLOSE hinted), `SESSION_BUSY`; or the signal's
 *   reason. The stream is then closed
 */
export async function initiate(
  { crypto, clock, random, self }: InitiateComponents,
  stream: ByteStream,
  { signer }: { signer: Signer },
  to: Eid,
  { signal, resume, ...wishes }: { signal: AbortSignal; resume?: ResumePurpose | undefined } & Partial<NewSessionWishes>
): Promise<Initiated> {
  const machine = new Initiator({
    crypto,
    local: signer,
    remoteEid: to,
    peers: peerIds(self, stream.connection, 'initiator'),
    flags:
      resume !== undefined
        ? resume.flags | FLAG.RESUME
        : newFlags({ needs: wishes.needs, exclusive: wishes.exclusive, groups: wishes.groups }),
    ...(resume === undefined ? {} : { resumeId: resume.sid }),
    randomness: { iCookie: cookie(random.bytes(8)), nonceI: random.bytes(32), ephSecret: random.bytes(32) },
    contract: (offer) => judgeOffer(offer, resume?.sfc === undefined ? { needs: wishes.needs ?? {} } : { stored: decodeSfc(resume.sfc) })
  })
  const startedMs = clock.monotonicMs()
  let hint: string | undefined
  let roundTrips = 0
  try {
    let step: InitiatorStep = machine.start(startedMs)
    let reading: Promise<Event> | undefined
    for (;;) {
      if (step.state === 'ESTABLISHED') {
        return { established: step.established, ack: step.send[0] as Uint8Array, startedMs, roundTrips }
      }
      if (step.state === 'CLOSED') {
        await tell(stream, step)
        throw handshakeFailed(step.error, hint)
      }
      for (const frame of step.send) await stream.write(frame, { signal })
      reading ??= nextFrame(stream, signal)
      const event: Event = await soonest(reading, clock, step.wakeAtMs)
      if (event.kind === 'failed') {
        signal.throwIfAborted()
        step = machine.abort(causeOf(event.error))
      } else if (event.kind === 'wake') step = machine.tick(clock.monotonicMs()) ?? step
      else {
        reading = undefined
        roundTrips += 1
        if (event.frame[1] === FRAME.CLOSE) hint = closeName(event.frame)
        step = machine.receive(event.frame, clock.monotonicMs())
      }
    }
  } catch (error) {
    void tell(stream, machine.abort(new ProtocolError('OUT_OF_ORDER', 'given up'))).then(() => stream.close())
    signal.throwIfAborted()
    if (error instanceof RookeryError && (error.code === 'STREAM_ENDED' || error.code === 'STREAM_RESET')) {
      throw handshakeFailed(causeOf(error), hint)
    }
    throw error
  }
}

/** INIT's flags for a new session. */
export function newFlags({ needs, exclusive, groups }: NewSessionWishes): number {
  if (exclusive === true) return (needs === undefined ? 0 : FLAG.SFC) | FLAG.EXCLUSIVE
  return (needs === undefined ? 0 : FLAG.SFC) | (groups === 'named' ? FLAG.GROUP : 0)
}

/** CLOSE is a hint: whether it arrives changes nothing. */
async function tell(stream: ByteStream, { send }: InitiatorStep): Promise<void> {
  for (const frame of send) await stream.write(frame).catch(() => {})
}

/** What a read failed with: a header that was refused speaks for itself. */
function causeOf(error: unknown): ProtocolError {
  if (error instanceof ProtocolError) return error
  return new ProtocolError('OUT_OF_ORDER', 'the stream ended during the handshake', { cause: error })
}

async function nextFrame(stream: ByteStream, signal: AbortSignal): Promise<Event> {
  try {
    return { kind: 'frame', frame: (await readSessionFrame(stream, { signal })).frame }
  } catch (error) {
    return { kind: 'failed', error }
  }
}

async function soonest(reading: Promise<Event>, clock: Clock, wakeAtMs: number): Promise<Event> {
  const wake = Promise.withResolvers<Event>()
  const cancel = clock.after(Math.max(0, wakeAtMs - clock.monotonicMs()), () => wake.resolve({ kind: 'wake' }))
  try {
    return await Promise.race([reading, wake.promise])
  } finally {
    cancel()
  }
}

/** A new session asks for none; a session that is taken up keeps its own, byte for byte. */
