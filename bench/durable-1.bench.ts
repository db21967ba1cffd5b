/** How many durable messages does a session carry a second, one at a time, beside NATS JetStream and Redis Streams? */
import { compareDurable } from './durable.ts'

await compareDurable({ id: 'durable-1', inFlight: 1, count: 150, rounds: 10 })
