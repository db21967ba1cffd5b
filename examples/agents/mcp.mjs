/**
 * An agent that works through MCP, as a model's host would: node examples/agents/mcp.mjs COMMAND ARG…
 * The command starts an MCP server on stdio, such as: node examples/agents/mcp.mjs rookery mcp --agent bob
 * It takes one task, answers with its words counted, and ends.
 */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'

const [command, ...args] = process.argv.slice(2)
const client = new Client({ name: 'word-counter', version: '1.0.0' })
await client.connect(new StdioClientTransport({ command, args, stderr: 'inherit' }))
const tool = async (name, given) => {
  const { structuredContent, isError } = await client.callTool({ name, arguments: given })
  if (isError) throw new Error(`${structuredContent.error.code}: ${structuredContent.error.message}`)
  return structuredContent
}

for (;;) {
  const { claim, todo } = await tool('claim_todo', { wait_ms: 20_000, side_effects: 'none' })
  if (todo === null) continue
  const words = todo.message.parts.flatMap(({ text }) => text?.split(/\s+/) ?? []).length
  const { state } = await tool('complete', { id: todo.id, claim, text: `${words} words` })
  process.stdout.write(`counted ${words} words: ${state}\n`)
  break
}
await client.close()
