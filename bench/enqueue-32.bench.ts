/** How many messages does an asleep queue take a second with 32 at once, beside NATS JetStream, Redis Streams and bare synced puts? */
import { compareEnqueue } from './enqueue.ts'

await compareEnqueue({ id: 'enqueue-32', inFlight: 32, count: 2_000, rounds: 10 })
