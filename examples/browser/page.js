import { createBrowserNode } from './rookery.js'

const element = (id) => document.getElementById(id)
const { bootstrap, topic } = await (await fetch('network.json')).json()
element('topic').textContent = topic

const tell = (error) => {
  element('state').textContent = `${error.code ?? error.name}: ${error.message}`
}

try {
  const node = await createBrowserNode({ bootstrap })
  element('did').textContent = node.did
  await node.joined()
  element('state').textContent = 'joined'
  const button = document.querySelector('button')
  button.disabled = false
  element('ask').addEventListener('submit', async (event) => {
    event.preventDefault()
    button.disabled = true
    try {
      const { members } = await node.discover({ topic, limit: 1 })
      if (members.length === 0) throw new Error('nobody has joined this topic')
      const { task } = await node.sendTask(members[0].did, element('text').value)
      element('answer').textContent = task.artifacts?.[0]?.parts[0].text ?? task.status.state
    } catch (error) {
      tell(error)
    } finally {
      button.disabled = false
    }
  })
} catch (error) {
  tell(error)
}
