import { equalsConstantTime, utf8 } from '../../protocol/bytes.ts'
import type { CryptoProvider } from '../../protocol/crypto/provider.ts'
import { ownerPrincipal, type VerifiedPrincipal } from '../grants/principal.ts'
import type { LocalAgent } from '../identity/agent.ts'
import { A2aError } from './a2a-error.ts'

/** Whose credential this is, or undefined. */
export type Authenticate = (token: string) => VerifiedPrincipal | undefined

const TOKEN_CHARS_MAX = 512

/** Of tokens of local agents alone. Compares digests of every token in time that does not depend on which one fits. */
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
    return found === undefined ? undefined : ownerPrincipal(found)
  }
}

/** @throws A2aError `UNAUTHENTICATED` */
export function checkBearer(header: string | undefined, authenticate: Authenticate): VerifiedPrincipal {
  const token = /^Bearer +([^\s]+)$/i.exec(header ?? '')?.[1]
  const principal = token === undefined || token.length > TOKEN_CHARS_MAX ? undefined : authenticate(token)
  if (principal === undefined) {
    throw new A2aError(
      'UNAUTHENTICATED',
      'send Authorization: Bearer with the credential of a grant in force, or the token of an agent of this node'
    )
  }
  return principal
}

/** Whether a header shows the token of an agent of this node. */
export function isBearer(header: string | undefined, authenticate: Authenticate): boolean {
  try {
    return checkBearer(header, authenticate).kind === 'owner'
  } catch {
    return false
  }
}
