import { Aes256Gcm, CipherSuite, HkdfSha256 } from '@hpke/core'
import { DhkemX25519HkdfSha256 } from '@hpke/dhkem-x25519'
import { ProtocolError } from '../errors.ts'
import type { Hpke, X25519 } from './provider.ts'

const suite = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes256Gcm() })

/** HPKE by `@hpke/core`, with the ephemeral key handed in so that no randomness hides inside. */
export function createHpke(x25519: X25519): Hpke {
  const keyPair = async (secret: Uint8Array) => ({
    privateKey: await suite.kem.deserializePrivateKey(own(secret)),
    publicKey: await suite.kem.deserializePublicKey(own(x25519.publicKey(secret)))
  })
  return {
    async seal({ recipient, ephemeralSecret, info, aad, plaintext }) {
      if (x25519.sharedSecret(ephemeralSecret, recipient) === undefined) throw lowOrder()
      const context = await suite.createSenderContext({
        recipientPublicKey: await suite.kem.deserializePublicKey(own(recipient)),
        ekm: await keyPair(ephemeralSecret),
        info: own(info)
      })
      return { enc: new Uint8Array(context.enc), ct: new Uint8Array(await context.seal(own(plaintext), own(aad))) }
    },
    async open({ secret, enc, info, aad, ct }) {
      try {
        const context = await suite.createRecipientContext({ recipientKey: await keyPair(secret), enc: own(enc), info: own(info) })
        return new Uint8Array(await context.open(own(ct), own(aad)))
      } catch {
        return undefined
      }
    }
  }
}

export function lowOrder(): ProtocolError {
  return new ProtocolError('KEY_INVALID', "the recipient's key is a point of low order", { field: 'recipient' })
}

/** A copy in an ArrayBuffer of its own: what WebCrypto's types and views on shared buffers want. */
function own(bytes: Uint8Array): ArrayBuffer {
  return new Uint8Array(bytes).buffer
}
