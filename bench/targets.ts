/** What is compared with whom, and what we are after: one line of the table that `npm run bench` ends with. */
export interface Target {
  /** bench/out/ID.json */
  readonly id: string
  /** in a few words; the peer's name stands beside it */
  readonly what: string
  /** how our row's name begins */
  readonly ours: string
  /** how the peer's row's name begins; absent: the baseline of that file */
  readonly peer?: string
  /** bounds of our figure ÷ the peer's; absent: it is measured, and no goal was set */
  readonly atMost?: number
  readonly atLeast?: number
  /** how the row begins that does no more than the guarantee demands: what a better program could reach at most */
  readonly floor?: string
  /** beyond this `npm run bench:guard` fails; only where both are in one process run that needs no server and is over in seconds */
  readonly guard?: number
}

export const TARGETS: readonly Target[] = [
  { id: 'handshake', what: 'session on an open connection', ours: 'PSS: handshake', atMost: 3, guard: 5, floor: 'floor:' },
  { id: 'dial', what: 'dial and session', ours: 'PSS: dial', atMost: 1.5, guard: 6, floor: 'floor:' },
  { id: 'ping-pong-1k', what: 'live round trips of 1 KiB', ours: 'PSS', peer: 'raw libp2p QUIC', atLeast: 0.7, floor: 'floor:' },
  { id: 'one-way-1k', what: 'live messages of 1 KiB', ours: 'PSS', peer: 'raw libp2p QUIC', atLeast: 0.8 },
  { id: 'one-way-64k', what: 'live messages of 64 KiB', ours: 'PSS', peer: 'raw libp2p QUIC', atLeast: 0.9 },
  { id: 'durable-1', what: 'durable messages, one at a time', ours: 'PSS, durable', peer: 'NATS', floor: 'floor:' },
  { id: 'durable-32', what: 'durable messages, 32 in flight', ours: 'PSS, durable', peer: 'NATS', atLeast: 0.7, floor: 'floor:' },
  { id: 'durable-32', what: 'durable messages, 32 in flight', ours: 'PSS, durable', peer: 'Redis', atLeast: 1, floor: 'floor:' },
  { id: 'resume', what: '10,000 missed transactions, beside live ones', ours: 'made while cut off', atMost: 1.3 },
  {
    id: 'enqueue-1',
    what: 'messages for one who sleeps, one at a time',
    ours: 'asleep queue',
    peer: 'a bare',
    atLeast: 0.7,
    guard: 0.2,
    floor: 'floor:'
  },
  { id: 'enqueue-32', what: 'messages for one who sleeps, 32 at once', ours: 'asleep queue', peer: 'Redis', floor: 'floor:' },
  {
    id: 'enqueue-http-32',
    what: 'the same over HTTP, 32 connections',
    ours: 'asleep queue',
    peer: 'express',
    atLeast: 0.5,
    floor: 'floor:'
  },
  { id: 'enqueue-http-1', what: 'the same over HTTP, one connection', ours: 'asleep queue', peer: 'express', floor: 'floor:' },
  { id: 'drain', what: 'messages handed over at a wake', ours: 'drain' },
  { id: 'send-message-1', what: 'SendMessage, one connection, synced', ours: 'a node', atLeast: 0.5, floor: 'floor:' },
  { id: 'send-message-32', what: 'SendMessage, 32 connections, synced', ours: 'a node', atLeast: 0.8, floor: 'floor:' },
  { id: 'first-event', what: 'first event of a stream, synced', ours: 'a node' },
  { id: 'state-rate', what: 'changes of a shared state', ours: 'rookery' },
  { id: 'state-memory', what: 'memory of a replica', ours: 'rookery' },
  { id: 'work', what: 'proof of work on one core', ours: 'solver, plain', atLeast: 0.95, guard: 0.6 },
  { id: 'work', what: 'proof of work on one core, SIMD', ours: 'solver, simd', atLeast: 2 }
]
