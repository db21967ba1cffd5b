import { equalsConstantTime, utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { homeOf, type LocalAgent } from '../identity/agent.ts'
import type { Principal } from '../tasks/todo.ts'
import { A2aError } from './a2a-error.ts'

/** Whose token this is, or undefined. */
export type Authenticate = (token: string) => LocalAgent | undefined

const TOKEN_CHARS_MAX = 512

/** Compares digests of every token in time that does not depend on which one fits. */
export function bearerAuthenticator({
  tokens,
  crypto
}: {
  tokens: () => Iterable<{ agent: LocalAgent; token: string }>
  crypto: CryptoProvider
}): Authenticate {
  return (token) => {
    const asked = crypto.sha256(utf8(token))
    let found: LocalAgent | undefined
    for (const one of tokens()) if (equalsConstantTime(asked, crypto.sha256(utf8(one.token)))) found = one.agent
    return found
  }
}

/** @throws A2aError `UNAUTHENTICATED` */
export function checkBearer(header: string | undefined, authenticate: Authenticate): LocalAgent {
  const token = /^Bearer +([^\s]+)$/i.exec(header ?? '')?.[1]
  const agent = token === undefined || token.length > TOKEN_CHARS_MAX ? undefined : authenticate(token)
  if (agent === undefined) {
    throw new A2aError('UNAUTHENTICATED', 'send Authorization: Bearer with the token of an agent of this node')
  }
  return agent
}

/** Whether a header shows the token of an agent of this node. */
export function isBearer(header: string | undefined, authenticate: Authenticate): boolean {
  try {
    checkBearer(header, authenticate)
    return true
  } catch {
    return false
  }
}

/** Named after the EID that it was first known by: what it owns stays its own when it rotates. */
export function principalOf(agent: Pick<LocalAgent, 'eidHex' | 'homeHex'>): Principal {
  return { id: `eid:${homeOf(agent)}`, eid: agent.eidHex }
}
