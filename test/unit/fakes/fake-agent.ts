import { utf8 } from '../../../protocol/bytes.ts'
import { eid, eidHex, eidToDid } from '../../../protocol/identity/eid.ts'
import { nodeCrypto } from '../../../src/crypto/node-crypto.ts'
import type { AgentReachability, LocalAgent } from '../../../src/identity/agent.ts'

/** An agent whose keys follow from its name. */
export function fakeAgent(
  name: string,
  reachability: AgentReachability = { mode: 'always_on' }
): LocalAgent & { reachability: AgentReachability } {
  const seed = nodeCrypto.sha256(utf8(`agent seed of ${name}`))
  const own = eid(nodeCrypto.ed25519.publicKey(seed))
  return {
    name,
    eid: own,
    eidHex: eidHex(own),
    did: eidToDid(own),
    description: `the agent ${name}`,
    signer: { publicKey: own, sign: (message) => nodeCrypto.ed25519.sign(seed, message) },
    mailboxKey: nodeCrypto.x25519.publicKey(nodeCrypto.sha256(utf8(`mailbox secret of ${name}`))),
    mailboxSecret: () => undefined,
    reachability
  }
}
