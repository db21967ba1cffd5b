/** How many durable messages does a session carry a second with 32 in flight, beside NATS JetStream and Redis Streams? */
import { compareDurable } from './durable.ts'

await compareDurable({ id: 'durable-32', inFlight: 32, count: 2_000, rounds: 10 })
