/** How long until the first event of a stream is there, beside the SDK's own server? */
import { compareServers } from './send-message.ts'

await compareServers({
  id: 'first-event',
  question: 'SendStreamingMessage to an echo, one at a time: time to the first event',
  unit: 'ms',
  better: 'lower',
  rounds: 7,
  method: 'SendStreamingMessage',
  connections: 1,
  count: 200,
  until: 'first-event',
  value: 'p50Ms'
})
process.exit(0)
