import * as ed from '@noble/ed25519'
import { sha512 } from '@noble/hashes/sha2.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { concat, fromHex, toHex, utf8 } from '../../protocol/bytes.ts'
import { nobleCrypto } from '../../protocol/crypto/noble.ts'
import { nodeCrypto } from '../../src/crypto/node-crypto.ts'

const providers = [
  { name: 'noble', crypto: nobleCrypto },
  { name: 'node:crypto', crypto: nodeCrypto }
]
const range = (from: number, to: number) => Uint8Array.from({ length: to - from }, (_, i) => from + i)
const filled = (byte: number, length: number) => new Uint8Array(length).fill(byte)

/** RFC 8032, §7.1, tests 1 to 3. */
const RFC_8032 = [
  [
    '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60',
    'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
    '',
    'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b'
  ],
  [
    '4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb',
    '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c',
    '72',
    '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00'
  ],
  [
    'c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7',
    'fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025',
    'af82',
    '6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a'
  ]
].map((row) => row.map(fromHex) as [Uint8Array, Uint8Array, Uint8Array, Uint8Array])

/** RFC 5869, A.1 to A.3. */
const RFC_5869 = [
  {
    ikm: filled(0x0b, 22),
    salt: range(0, 13),
    info: range(0xf0, 0xfa),
    prk: '077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5',
    okm: '3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865'
  },
  {
    ikm: range(0, 0x50),
    salt: range(0x60, 0xb0),
    info: range(0xb0, 0x100),
    prk: '06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244',
    okm: 'b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87'
  },
  {
    ikm: filled(0x0b, 22),
    salt: new Uint8Array(0),
    info: new Uint8Array(0),
    prk: '19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04',
    okm: '8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8'
  }
]

/** RFC 7748, §5.2: two vectors and the first step of the iterated one. */
const RFC_7748 = [
  [
    'a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4',
    'e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c',
    'c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552'
  ],
  [
    '4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d',
    'e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493',
    '95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957'
  ],
  [`09${'00'.repeat(31)}`, `09${'00'.repeat(31)}`, '422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079']
].map((row) => row.map(fromHex) as [Uint8Array, Uint8Array, Uint8Array])

const GCM_KEY = fromHex('feffe9928665731c6d6a8f9467308308'.repeat(2))
const GCM_NONCE = fromHex('cafebabefacedbaddecaf888')
const GCM_PLAINTEXT = fromHex(
  'd9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255'
)
/** The GCM specification, AES-256 test cases 13 to 16. */
const GCM = [
  { key: filled(0, 32), nonce: filled(0, 12), aad: '', plaintext: filled(0, 0), sealed: '530f8afbc74536b9a963b4f1c4cb738b' },
  {
    key: filled(0, 32),
    nonce: filled(0, 12),
    aad: '',
    plaintext: filled(0, 16),
    sealed: 'cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919'
  },
  {
    key: GCM_KEY,
    nonce: GCM_NONCE,
    aad: '',
    plaintext: GCM_PLAINTEXT,
    sealed:
      '522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015adb094dac5d93471bdec1a502270e3cc6c'
  },
  {
    key: GCM_KEY,
    nonce: GCM_NONCE,
    aad: 'feedfacedeadbeeffeedfacedeadbeefabaddad2',
    plaintext: GCM_PLAINTEXT.subarray(0, 60),
    sealed:
      '522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b'
  }
]

/** Sealed by the HPKE of pyca/cryptography 48 (OpenSSL) to the key of 32 bytes 0x07, with this info and no aad. */
const HPKE = {
  secret: filled(7, 32),
  info: utf8('rookery/v1/object\0'),
  plaintext: 'Beauty is truth, truth beauty',
  enc: '3e80b9ee967b40e2ab62f190826b58cbac79ded6f4ea624289bbf812b9af0e42',
  ct: '3654b1b86e5d198300caf7b67045b49222852829daaf8f0675c153e0cf702506354cc3ca7337f02e2a2633220d'
}

describe.each(providers)('$name', ({ crypto }) => {
  it('hashes parts as their concatenation', () => {
    expect(toHex(crypto.sha256(utf8('abc')))).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
    expect(toHex(crypto.sha256())).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
    expect(crypto.sha256(utf8('a'), utf8(''), utf8('bc'))).toEqual(crypto.sha256(utf8('abc')))
    expect(toHex(crypto.hmacSha256(filled(0x0b, 20), utf8('Hi '), utf8('There')))).toBe(
      'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7'
    )
  })

  it.each(RFC_5869)('agrees with RFC 5869: $okm', ({ ikm, salt, info, prk, okm }) => {
    expect(toHex(crypto.hkdfExtract(salt, ikm))).toBe(prk)
    expect(toHex(crypto.hkdfExpand(fromHex(prk), info, okm.length / 2))).toBe(okm)
  })

  it('expands to 8,160 bytes and not one more', () => {
    expect(crypto.hkdfExpand(filled(1, 32), utf8('x'), 8_160)).toHaveLength(8_160)
    expect(() => crypto.hkdfExpand(filled(1, 32), utf8('x'), 8_161)).toThrow(Error)
  })

  it.each(RFC_8032)('[D-01] agrees with RFC 8032, seed %#', (seed, key, message, signature) => {
    expect(crypto.ed25519.publicKey(seed)).toEqual(key)
    expect(crypto.ed25519.sign(seed, message)).toEqual(signature)
    expect(crypto.ed25519.verify(key, message, signature)).toBe(true)
    expect(crypto.ed25519.isValidKey(key)).toBe(true)
    expect(crypto.ed25519.verify(key, concat([message, Uint8Array.of(0)]), signature)).toBe(false)
  })

  it.each(RFC_7748)('agrees with RFC 7748, vector %#', (secret, key, shared) => {
    expect(crypto.x25519.sharedSecret(secret, key)).toEqual(shared)
  })

  it('derives the X25519 public key as the exchange with the base point, and both sides the same secret', () => {
    const base = Uint8Array.of(9, ...new Uint8Array(31))
    const [a, b] = [filled(1, 32), filled(2, 32)]
    expect(crypto.x25519.publicKey(a)).toEqual(crypto.x25519.sharedSecret(a, base))
    expect(crypto.x25519.sharedSecret(a, crypto.x25519.publicKey(b))).toEqual(crypto.x25519.sharedSecret(b, crypto.x25519.publicKey(a)))
  })

  it.each([
    ['zero', '00'.repeat(32)],
    ['one', `01${'00'.repeat(31)}`],
    ['order 8', 'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800'],
    ['order 8, the other', '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157'],
    ['p − 1', `ec${'ff'.repeat(30)}7f`],
    ['p', `ed${'ff'.repeat(30)}7f`],
    ['p + 1', `ee${'ff'.repeat(30)}7f`]
  ])('[D-02] gives no shared secret with a point of low order: %s', (_, hex) => {
    expect(crypto.x25519.sharedSecret(filled(5, 32), fromHex(hex))).toBeUndefined()
  })

  it('[D-02] gives no shared secret with a key of another length', () => {
    for (const length of [0, 31, 33]) expect(crypto.x25519.sharedSecret(filled(5, 32), filled(9, length))).toBeUndefined()
  })

  it.each(GCM)('agrees with AES-256-GCM test $sealed', ({ key, nonce, aad, plaintext, sealed }) => {
    expect(toHex(crypto.aead.seal(key, nonce, fromHex(aad), plaintext))).toBe(sealed)
    expect(crypto.aead.open(key, nonce, fromHex(aad), fromHex(sealed))).toEqual(plaintext.slice())
    const keyed = crypto.aead.keyed(key)
    expect(toHex(keyed.seal(nonce, fromHex(aad), plaintext))).toBe(sealed)
    const buffer = new Uint8Array(plaintext.length + 16)
    buffer.set(plaintext)
    keyed.sealInPlace(nonce, fromHex(aad), buffer)
    expect(toHex(buffer)).toBe(sealed)
    expect(keyed.open(nonce, fromHex(aad), fromHex(sealed))).toEqual(plaintext.slice())
    expect(keyed.open(nonce, utf8('other'), fromHex(sealed))).toBeUndefined()
  })

  it('[D-15] opens nothing of which one bit of text, tag, nonce or associated data changed', () => {
    const [aad, plaintext] = [utf8('header'), utf8('payload')]
    const sealed = crypto.aead.seal(GCM_KEY, GCM_NONCE, aad, plaintext)
    const flipped = (bytes: Uint8Array, bit: number) => bytes.map((byte, i) => (i === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte))
    for (let bit = 0; bit < sealed.length * 8; bit++)
      expect(crypto.aead.open(GCM_KEY, GCM_NONCE, aad, flipped(sealed, bit))).toBeUndefined()
    for (let bit = 0; bit < 96; bit++) expect(crypto.aead.open(GCM_KEY, flipped(GCM_NONCE, bit), aad, sealed)).toBeUndefined()
    for (let bit = 0; bit < 48; bit++) expect(crypto.aead.open(GCM_KEY, GCM_NONCE, flipped(aad, bit), sealed)).toBeUndefined()
    for (const length of [0, 1, 15]) expect(crypto.aead.open(GCM_KEY, GCM_NONCE, aad, sealed.subarray(0, length))).toBeUndefined()
  })

  it('[D-06] opens what another HPKE (RFC 9180) sealed', async () => {
    const opened = await crypto.hpke.open({
      secret: HPKE.secret,
      enc: fromHex(HPKE.enc),
      info: HPKE.info,
      aad: new Uint8Array(0),
      ct: fromHex(HPKE.ct)
    })
    expect(opened).toEqual(utf8(HPKE.plaintext))
  })

  it('[D-06] opens what it sealed itself, with its info and associated data only', async () => {
    const recipient = crypto.x25519.publicKey(HPKE.secret)
    const plaintext = utf8('hello')
    const { enc, ct } = await crypto.hpke.seal({ recipient, ephemeralSecret: filled(3, 32), info: HPKE.info, aad: utf8('aad'), plaintext })
    expect(enc).toEqual(crypto.x25519.publicKey(filled(3, 32)))
    const good = { secret: HPKE.secret, enc, info: HPKE.info, aad: utf8('aad'), ct }
    expect(await crypto.hpke.open(good)).toEqual(plaintext)
    expect(await crypto.hpke.open({ ...good, aad: utf8('bad') })).toBeUndefined()
    expect(await crypto.hpke.open({ ...good, info: utf8('other') })).toBeUndefined()
    expect(await crypto.hpke.open({ ...good, secret: filled(8, 32) })).toBeUndefined()
    expect(await crypto.hpke.open({ ...good, enc: new Uint8Array(32) })).toBeUndefined()
    expect(await crypto.hpke.open({ ...good, enc: enc.subarray(1) })).toBeUndefined()
    expect(await crypto.hpke.open({ ...good, ct: ct.subarray(1) })).toBeUndefined()
    expect(await crypto.hpke.open({ ...good, ct: new Uint8Array(0) })).toBeUndefined()
  })

  it('[D-06] seals to no key of low order', async () => {
    const low = { recipient: new Uint8Array(32), ephemeralSecret: filled(3, 32), info: HPKE.info, aad: utf8('aad'), plaintext: utf8('x') }
    await expect(crypto.hpke.seal(low)).rejects.toMatchObject({ name: 'ProtocolError', code: 'KEY_INVALID', field: 'recipient' })
  })
})

describe('noble and node:crypto', () => {
  const seed = fc.uint8Array({ minLength: 32, maxLength: 32 })

  it('make the same bytes of the same input', async () => {
    await fc.assert(
      fc.asyncProperty(seed, seed, fc.uint8Array({ maxLength: 300 }), fc.uint8Array({ maxLength: 40 }), async (a, b, text, aad) => {
        const made = providers.map(({ crypto }) => [
          crypto.sha256(text, aad),
          crypto.hmacSha256(a, text, aad),
          crypto.hkdfExtract(a, text),
          crypto.hkdfExpand(a, aad, 70),
          crypto.ed25519.publicKey(a),
          crypto.ed25519.sign(a, text),
          crypto.x25519.publicKey(a),
          crypto.x25519.sharedSecret(a, crypto.x25519.publicKey(b)),
          crypto.aead.seal(a, b.subarray(0, 12), aad, text)
        ])
        expect(made[0]).toEqual(made[1])
        const sealed = await Promise.all(
          providers.map(({ crypto }) =>
            crypto.hpke.seal({ recipient: crypto.x25519.publicKey(b), ephemeralSecret: a, info: aad, aad, plaintext: text })
          )
        )
        expect(sealed[0]).toEqual(sealed[1])
      }),
      { numRuns: 20 }
    )
  })
})

const L = ed.Point.CURVE().n
const B = ed.Point.BASE
/** A point of order 8. */
const T8 = ed.Point.fromHex('c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a')
const torsion = (times: number) => {
  let point = ed.Point.ZERO
  for (let i = 0; i < times % 8; i++) point = point.add(T8)
  return point
}
const little = (value: bigint) => Uint8Array.from({ length: 32 }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn))
const number = (bytes: Uint8Array) => bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
const challenge = (r: Uint8Array, key: Uint8Array, message: Uint8Array) => number(sha512(concat([r, key, message]))) % L
const mod = (value: bigint) => ((value % L) + L) % L

/** A signature by scalars of our choice: R = [r]B + [tr]T8 in the given spelling, S = r + k·a. */
function craft({
  a,
  r,
  key,
  message,
  tr = 0,
  rBytes
}: {
  a: bigint
  r: bigint
  key: Uint8Array
  message: Uint8Array
  tr?: number
  rBytes?: Uint8Array
}) {
  const R = rBytes ?? (r === 0n ? ed.Point.ZERO : B.multiply(r)).add(torsion(tr)).toBytes()
  const k = challenge(R, key, message)
  return { signature: concat([R, little(mod(r + k * a))]), k }
}

describe.each(providers)('the one rule of verification, in $name', ({ crypto }) => {
  const { verify, isValidKey } = crypto.ed25519
  const message = utf8('evidence')
  const a = 123_456_789_012_345_678_901_234_567_890n
  const key = B.multiply(a).toBytes()

  it('[D-24] accepts a signature made by the equation alone', () => {
    expect(verify(key, message, craft({ a, r: 77n, key, message }).signature)).toBe(true)
  })

  it.each([
    ['order 1', `01${'00'.repeat(31)}`],
    ['order 2', `ec${'ff'.repeat(30)}7f`],
    ['order 4', '00'.repeat(32)],
    ['order 4, negative', `${'00'.repeat(31)}80`],
    ['order 8', '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05'],
    ['order 8, negative', '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85'],
    ['order 8, the other', 'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a'],
    ['order 8, the other, negative', 'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa'],
    ['p, which is 0', `ed${'ff'.repeat(30)}7f`],
    ['p with the sign bit', `ed${'ff'.repeat(30)}ff`],
    ['p + 1, which is 1', `ee${'ff'.repeat(30)}7f`],
    ['p + 1 with the sign bit', `ee${'ff'.repeat(30)}ff`],
    ['1 with a sign that x = 0 does not have', `01${'00'.repeat(30)}80`],
    ['−1 with a sign that x = 0 does not have', `ec${'ff'.repeat(30)}ff`]
  ])('[D-24] refuses a key of small order or odd spelling under which anything would verify: %s', (_, hex) => {
    const small = fromHex(hex)
    expect(isValidKey(small)).toBe(false)
    // S = r fits R = [r]B whenever k·A is the identity: some message gives such a k for every order
    for (let r = 1n; r <= 24n; r++) {
      const R = B.multiply(r).toBytes()
      expect(verify(small, message, concat([R, little(r)]))).toBe(false)
    }
  })

  it('[D-24] refuses a key that is no point, or of another length', () => {
    for (const hex of [`02${'00'.repeat(31)}`, 'ff'.repeat(32), '00', '', '00'.repeat(33)]) {
      expect(isValidKey(fromHex(hex))).toBe(false)
      expect(verify(fromHex(hex), message, new Uint8Array(64))).toBe(false)
    }
  })

  it('[D-24] refuses every key of mixed order, even where the equation holds without the cofactor', () => {
    for (let times = 1; times < 8; times++) {
      const mixed = B.multiply(a).add(torsion(times)).toBytes()
      expect(isValidKey(mixed)).toBe(false)
      let r = 1n
      while (craft({ a, r, key: mixed, message }).k % 8n !== 0n) r++
      const { signature } = craft({ a, r, key: mixed, message })
      const [R, S] = [signature.subarray(0, 32), number(signature.subarray(32))]
      const k = challenge(R, mixed, message)
      const left = B.multiply(S).subtract(ed.Point.fromBytes(mixed).multiplyUnsafe(k))
      expect(toHex(left.toBytes())).toBe(toHex(R))
      expect(verify(mixed, message, signature)).toBe(false)
    }
  })

  it('[D-24] refuses every R of mixed order, which holds with the cofactor only', () => {
    for (let tr = 1; tr < 8; tr++) {
      const { signature } = craft({ a, r: 99n, tr, key, message })
      expect(ed.verify(signature, message, key, { zip215: true })).toBe(true)
      expect(verify(key, message, signature)).toBe(false)
    }
  })

  it('[D-24] compares the bytes of R: the identity in its one spelling passes, in another it does not', () => {
    const spelt = (hex: string) => craft({ a, r: 0n, key, message, rBytes: fromHex(hex) }).signature
    expect(verify(key, message, spelt(`01${'00'.repeat(31)}`))).toBe(true)
    for (const hex of [
      `01${'00'.repeat(30)}80`,
      `ee${'ff'.repeat(30)}7f`,
      `ee${'ff'.repeat(30)}ff`,
      `ec${'ff'.repeat(30)}7f`,
      '00'.repeat(32)
    ]) {
      expect(verify(key, message, spelt(hex))).toBe(false)
    }
  })

  it('[D-24] refuses S that is not below the order of the group', () => {
    const { signature } = craft({ a, r: 5n, key, message })
    const s = number(signature.subarray(32))
    for (const over of [s + L, s + 2n * L, s + 8n * L, (1n << 256n) - 1n, L]) {
      if (over < 1n << 256n) expect(verify(key, message, concat([signature.subarray(0, 32), little(over)]))).toBe(false)
    }
  })

  it('[D-24] refuses signatures of other lengths, and never throws', () => {
    const { signature } = craft({ a, r: 5n, key, message })
    for (const length of [0, 32, 63]) expect(verify(key, message, signature.subarray(0, length))).toBe(false)
    expect(verify(key, message, concat([signature, Uint8Array.of(0)]))).toBe(false)
    expect(verify(new Uint8Array(0), message, signature)).toBe(false)
  })
})

describe('third parties', () => {
  it('[D-24] come to one verdict, whatever torsion, length of S or bit a signer plays with', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: 1n, max: L - 1n }),
        fc.bigInt({ min: 1n, max: L - 1n }),
        fc.nat(7),
        fc.nat(7),
        fc.constantFrom(0n, 1n),
        fc.option(fc.nat(511), { nil: undefined, freq: 1 }),
        fc.uint8Array({ maxLength: 20 }),
        (a, r, tKey, tr, wraps, flip, message) => {
          const key = B.multiply(a).add(torsion(tKey)).toBytes()
          const { signature } = craft({ a, r, tr, key, message })
          const s = number(signature.subarray(32)) + wraps * L
          const bytes = concat([signature.subarray(0, 32), little(s)])
          if (flip !== undefined) bytes[flip >> 3] = (bytes[flip >> 3] as number) ^ (1 << (flip & 7))
          const verdicts = providers.map(({ crypto }) => crypto.ed25519.verify(key, message, bytes))
          const honest = tKey === 0 && tr === 0 && wraps === 0n && flip === undefined
          expect(verdicts).toEqual([honest, honest])
        }
      ),
      { numRuns: 150 }
    )
  })

  it('[D-24] agree on arbitrary keys: valid or not', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        expect(nobleCrypto.ed25519.isValidKey(bytes)).toBe(nodeCrypto.ed25519.isValidKey(bytes))
      }),
      { numRuns: 60 }
    )
  })
})
