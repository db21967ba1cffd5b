/** Bounds of one agent's asleep queue (OD-24 … OD-27); published in card and status (OD-30). */
export interface QueueBounds {
  messagesMax: number
  /** over the stored objects' bytes */
  bytesMax: number
  /** pending messages of one verified principal */
  messagesPerPeerMax: number
  ttlMaxMs: number
}

/** OD-29: 500 messages, 2 MiB, 50 pending a peer, 7 days. */
export const QUEUE_BOUNDS_DEFAULT: Readonly<QueueBounds> = {
  messagesMax: 500,
  bytesMax: 2 * 1_048_576,
  messagesPerPeerMax: 50,
  ttlMaxMs: 7 * 86_400_000
}

/** Which bound of an asleep queue an attempt met (OD-47). */
export const QUEUE_FULL_KINDS = ['peer', 'messages', 'bytes'] as const
export type QueueFullKind = (typeof QUEUE_FULL_KINDS)[number]

export interface QueueLoad {
  messages: number
  bytes: number
  /** pending messages of the principal that asks, whoever its messages say it is (OD-31, OD-32) */
  peerMessages: number
}

/**
 * Whether `sizeBytes` more may come in. In this order (G-07): the peer's own bound, so that a peer at its cap learns nothing of the rest;
 * messages; bytes; and last what no queue takes, an object above the size of one.
 */
export function judgeBounds(
  load: QueueLoad,
  bounds: Omit<QueueBounds, 'ttlMaxMs'>,
  size: { bytes: number; objectBytesMax: number }
): 'fits' | QueueFullKind | 'too-large' {
  if (load.peerMessages >= bounds.messagesPerPeerMax) return 'peer'
  if (load.messages >= bounds.messagesMax) return 'messages'
  if (load.bytes + size.bytes > bounds.bytesMax) return 'bytes'
  return size.bytes > size.objectBytesMax ? 'too-large' : 'fits'
}
