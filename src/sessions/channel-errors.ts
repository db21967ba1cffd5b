import { RookeryError } from '../errors.ts'

/** We said that no more would come. */
export function channelEnded(channel: number): RookeryError {
  return new RookeryError('CHANNEL_ENDED', `channel ${channel} was ended by this side`, {
    kind: 'usage',
    field: 'channel',
    value: channel,
    remedy: 'open it again'
  })
}

/** The peer reads no more. */
export function channelStopped(channel: number, code: number): RookeryError {
  return new RookeryError('CHANNEL_STOPPED', `the peer reads no more from channel ${channel} (code ${code})`, {
    kind: 'refused',
    data: { channel, code }
  })
}

/** A connection ended under a live channel. */
export function channelGap(channel: number): RookeryError {
  return new RookeryError('CHANNEL_GAP', `the connection changed: live messages of channel ${channel} may be lost here`, {
    kind: 'unavailable',
    remedy: 'read on for what comes now, and ask the peer again for what may be missing',
    data: { channel }
  })
}

export function channelLost(channel: number, reason: string): RookeryError {
  return new RookeryError('SESSION_CLOSED', `the session ended (${reason}) before the peer ended channel ${channel}`, {
    kind: 'unavailable',
    remedy: 'open a new session',
    data: { channel, reason }
  })
}
