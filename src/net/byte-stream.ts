/** What a stream tells about the connection that carries it. */
export interface ConnectionInfo {
  /** libp2p's id of the connection, unique in this process */
  readonly id: string
  /** the authenticated PeerId, text form */
  readonly peer: string
  /** the remote multiaddr this connection had when it opened */
  readonly remoteAddr: string
  readonly transport: 'quic' | 'tcp' | 'websocket' | 'webtransport' | 'webrtc' | 'memory' | 'relay'
  readonly direction: 'inbound' | 'outbound'
  /** what a relay carries over this connection before it cuts it, both ways together; undefined: no bound is known */
  readonly bytesLimit?: number
  /** closes the whole connection; used against peers that misbehave */
  abort(reason: Error): void
}

/**
 * A bidirectional stream of bytes with exact reads, back-pressure and deadlines, over a libp2p stream. Reads are one at a time; so are writes.
 * At most `BUFFER_BYTES_MAX` wait unread: above that the transport is paused.
 */
export interface ByteStream {
  readonly protocol: string
  readonly connection: ConnectionInfo
  /**
   * Exactly `length` bytes.
   * @throws RookeryError `STREAM_ENDED` when the stream ends before, `STREAM_RESET`; or the signal's reason
   */
  read(length: number, options?: { signal?: AbortSignal }): Promise<Uint8Array>
  /**
   * Fills `target`, which its owner leaves alone until then; where it throws, nothing of it was written.
   * @throws as {@link read}
   */
  readInto(target: Uint8Array, options?: { signal?: AbortSignal }): Promise<void>
  /** Resolves once the transport took the bytes and wants more. */
  write(bytes: Uint8Array, options?: { signal?: AbortSignal }): Promise<void>
  /** Ends our direction; the peer may still write. */
  closeWrite(): Promise<void>
  /** Ends both directions, reading on is not needed. Never throws. */
  close(): Promise<void>
  /** Drops the stream at once. Never throws. */
  reset(reason: Error): void
  /** Resolves when the stream is gone in both directions. */
  readonly closed: Promise<void>
}
