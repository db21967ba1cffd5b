/** How many SendMessage calls a second, answered with the completed task, does a node take on 1 and on 32 connections, and how long do the slowest take? */
import { compareServers } from './send-message.ts'

for (const connections of [1, 32]) {
  await compareServers({
    id: `send-message-${connections}`,
    question: `SendMessage to an echo, answered with the completed task, ${connections} connection${connections === 1 ? '' : 's'}`,
    unit: 'calls/s',
    better: 'higher',
    rounds: 7,
    method: 'SendMessage',
    connections,
    count: connections === 1 ? 300 : 1_600,
    until: 'answer',
    value: 'perSec',
    withFloor: true
  })
}
process.exit(0)
