/** How many messages does an asleep queue take a second, one after the other, beside NATS JetStream, Redis Streams and a bare synced put? */
import { compareEnqueue } from './enqueue.ts'

await compareEnqueue({ id: 'enqueue-1', inFlight: 1, count: 500, rounds: 10 })
