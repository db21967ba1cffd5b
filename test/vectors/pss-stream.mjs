// Writes protocol/vectors/pss-{items,data-stream,ready,teardown}.json from the specification with node:crypto alone, so that no mistake of ours is in both.
import { createCipheriv, createHash, createHmac, createPrivateKey, createPublicKey, sign } from 'node:crypto'
import { writeFileSync } from 'node:fs'

const H = (...p) => {
  const h = createHash('sha256')
  for (const x of p) h.update(x)
  return h.digest()
}
const u = (n, bytes) => {
  const b = Buffer.alloc(bytes)
  let v = BigInt(n)
  for (let i = bytes - 1; i >= 0; i--) {
    b[i] = Number(v & 255n)
    v >>= 8n
  }
  return b
}
const fill = (x, n = 32) => Buffer.alloc(n, x)
const hex = (b) => Buffer.from(b).toString('hex')
const label = (l) => Buffer.concat([Buffer.from(`rookery/v1/${l}`), Buffer.alloc(1)])
const key = fill(0x11),
  iv = fill(0x12, 12),
  chain = fill(0x13),
  iC = fill(0x61, 8),
  rC = fill(0x62, 8),
  sid = fill(0x41, 16),
  epoch = fill(0x51)
const seed = fill(0xa1)
const pk8 = (s) =>
  createPrivateKey({ key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), s]), format: 'der', type: 'pkcs8' })
const eid = createPublicKey(pk8(seed)).export({ format: 'der', type: 'spki' }).subarray(-32)
const expand = (prk, info, len) => {
  let t = Buffer.alloc(0),
    out = Buffer.alloc(0)
  for (let i = 1; out.length < len; i++) {
    t = createHmac('sha256', prk)
      .update(t)
      .update(info)
      .update(Buffer.from([i]))
      .digest()
    out = Buffer.concat([out, t])
  }
  return out.subarray(0, len)
}
const item = (kind, channel, payload, prev) =>
  Buffer.concat([u(kind, 1), u(channel, 2), ...(kind < 0x80 ? [u(prev ?? 0, 8)] : []), u(payload.length, 4), payload])
function record({ type = 0x0b, flags = 0, rec = 0n, seq = 0n, ack = 0n, hash = Buffer.alloc(32), plain, k = key, v = iv, header }) {
  const body = 56 + plain.length + 16
  const head = header ?? Buffer.concat([u(1, 1), u(type, 1), u(flags, 2), u(body, 4), iC, rC])
  const aad = Buffer.concat([head, u(rec, 8), u(seq, 8), u(ack, 8), hash])
  const nonce = Buffer.from(v)
  const r = u(rec, 8)
  for (let i = 0; i < 8; i++) nonce[4 + i] ^= r[i]
  const c = createCipheriv('aes-256-gcm', k, nonce)
  c.setAAD(aad)
  const ct = Buffer.concat([c.update(plain), c.final(), c.getAuthTag()])
  return Buffer.concat([aad, ct])
}
const digest = (dPrev, n, prev, kind, channel, payload) => H(label('tx'), dPrev, u(n, 8), u(prev, 8), u(kind, 1), u(channel, 2), payload)
const given = { key: hex(key), iv: hex(iv), chain: hex(chain), iCookie: hex(iC), rCookie: hex(rC) }
const t = (s) => Buffer.from(s)
const items = (list) =>
  list.map(([kind, channel, payload, prev]) => ({
    kind,
    channel,
    ...(kind < 0x80 ? { prev: String(prev ?? 0) } : {}),
    payload: hex(payload)
  }))
const put = (name, list) => writeFileSync(new URL(`../../protocol/vectors/${name}`, import.meta.url), `${JSON.stringify(list, null, 2)}\n`)

// ── items ──
const I = (list) => Buffer.concat(list.map(([k, c, p, prev]) => item(k, c, p, prev)))
const one = [[2, 1, t('hello'), 0]]
const three = [
  [2, 1, t('a'), 7],
  [0x85, 1, t('live'), undefined],
  [3, 1, t(''), 8]
]
put('pss-items.json', [
  {
    id: 'items-one-transaction',
    req: ['PSS-17'],
    note: 'kind 0x02, channel 1, the first of its channel',
    hex: hex(I(one)),
    decoded: items(one)
  },
  {
    id: 'items-mixed',
    req: ['PSS-17'],
    note: 'a transaction, a live item and an empty transaction of one channel',
    hex: hex(I(three)),
    decoded: items(three)
  },
  {
    id: 'items-unknown-kinds',
    req: ['PSS-17'],
    note: 'unknown kinds parse: below 0x80 with prev, from 0x80 without',
    hex: hex(
      I([
        [0x7f, 5, t('x'), 2],
        [0xfe, 5, t('y')]
      ])
    ),
    decoded: items([
      [0x7f, 5, t('x'), 2],
      [0xfe, 5, t('y')]
    ])
  },
  {
    id: 'items-prev-u64',
    req: ['F076'],
    note: 'prev beyond 2^53',
    hex: hex(I([[2, 1, t('n'), 9007199254740993n]])),
    decoded: items([[2, 1, t('n'), 9007199254740993n]])
  },
  { id: 'items-none', req: ['PSS-17'], note: 'a record holds at least one item', hex: '', error: 'TRUNCATED' },
  {
    id: 'items-two-channels',
    req: ['PSS-20'],
    note: 'a record belongs to one stream, and so to one channel',
    hex: hex(
      I([
        [0x85, 1, t('a')],
        [0x85, 2, t('b')]
      ])
    ),
    error: 'OUT_OF_ORDER'
  },
  { id: 'items-cut-payload', req: ['PSS-17'], note: 'length says 5, 4 bytes follow', hex: hex(I(one).subarray(0, -1)), error: 'TRUNCATED' },
  { id: 'items-cut-prev', req: ['PSS-17'], note: 'ends inside prev', hex: '02000100000000', error: 'TRUNCATED' },
  {
    id: 'items-too-long',
    req: ['PSS-17'],
    note: 'length 1 MiB + 1 is refused before the bytes are looked for',
    hex: '85000100100001',
    error: 'TOO_LARGE'
  },
  {
    id: 'items-trailing',
    req: ['PSS-17'],
    note: 'bytes after the last item are the head of another',
    hex: hex(Buffer.concat([I(one), u(0, 1)])),
    error: 'TRUNCATED'
  }
])

// ── DATA_STREAM ──
const d1 = digest(Buffer.alloc(32), 1, 0, 2, 1, t('hello')),
  h1 = H(chain, d1)
const d2 = digest(d1, 2, 1, 2, 1, t('again')),
  h2 = H(h1, d2)
const d3 = digest(d2, 3, 2, 3, 1, t('')),
  h3 = H(h2, d3)
const okm = expand(key, label('pss-rekey'), 44),
  key1 = okm.subarray(0, 32),
  iv1 = okm.subarray(32)
const dec = (o) => ({ type: 'DATA_STREAM', finAck: false, rec: '0', seq: '0', ack: '0', hash: hex(Buffer.alloc(32)), ...o })
const first = record({ rec: 1n, seq: 1n, hash: h1, plain: I(one) })
const flip = (b, at, bit = 1) => {
  const c = Buffer.from(b)
  c[at] ^= bit
  return c
}
const v = (id, req, note, bytes, rest, g = given) => ({ id, req, note, given: g, hex: hex(bytes), ...rest })
put('pss-data-stream.json', [
  v(
    'record-one-transaction',
    ['PSS-17', 'PSS-18', 'PSS-19'],
    'rec 1, transaction 1: d_1 over the channel head 0^32, h_1 = H(h_0 ‖ d_1)',
    first,
    { decoded: dec({ rec: '1', seq: '1', hash: hex(h1), items: items(one), digests: [hex(d1)] }) }
  ),
  v(
    'record-three-transactions',
    ['PSS-17', 'PSS-19'],
    'three transactions in one record: hash is the chain after the third',
    record({
      rec: 1n,
      seq: 1n,
      ack: 5n,
      hash: h3,
      plain: I([
        [2, 1, t('hello'), 0],
        [2, 1, t('again'), 1],
        [3, 1, t(''), 2]
      ])
    }),
    {
      decoded: dec({
        rec: '1',
        seq: '1',
        ack: '5',
        hash: hex(h3),
        items: items([
          [2, 1, t('hello'), 0],
          [2, 1, t('again'), 1],
          [3, 1, t(''), 2]
        ]),
        digests: [hex(d1), hex(d2), hex(d3)]
      })
    }
  ),
  v(
    'record-live',
    ['PSS-03', 'PSS-17'],
    'a live item: seq 0 and hash zero',
    record({ rec: 2n, ack: 1n, plain: I([[0x85, 1, t('now')]]) }),
    { decoded: dec({ rec: '2', ack: '1', items: items([[0x85, 1, t('now')]]) }) }
  ),
  v(
    'record-ack-only',
    ['PSS-17'],
    'kind 0x81, empty, channel 0',
    record({ rec: 3n, ack: 9007199254740993n, plain: I([[0x81, 0, t('')]]) }),
    { decoded: dec({ rec: '3', ack: '9007199254740993', items: items([[0x81, 0, t('')]]) }) }
  ),
  v(
    'record-generation-1',
    ['PSS-18'],
    'rec = generation 1, count 0: key ‖ IV = Expand(key_0, rookery/v1/pss-rekey ‖ 0x00, 44)',
    record({ rec: 1n << 48n, plain: I([[0x83, 0, t('')]]), k: key1, v: iv1 }),
    { decoded: dec({ rec: String(1n << 48n), items: items([[0x83, 0, t('')]]) }) }
  ),
  v('record-bit-in-length', ['D-15'], 'one bit of the body length', flip(first, 7), { error: 'TRUNCATED' }),
  v('record-bit-in-cookie', ['D-15'], 'one bit of the R-cookie', flip(first, 20), { error: 'COOKIE_MISMATCH' }),
  v('record-bit-in-flags', ['D-15'], 'an ignored flag is authenticated all the same', flip(first, 2), { error: 'AEAD_OPEN' }),
  v('record-bit-in-rec', ['D-15', 'PSS-18'], 'one bit of rec', flip(first, 31), { error: 'AEAD_OPEN' }),
  v('record-bit-in-seq', ['D-15'], 'one bit of seq', flip(first, 39, 2), { error: 'AEAD_OPEN' }),
  v('record-bit-in-ack', ['D-15'], 'one bit of ack', flip(first, 47), { error: 'AEAD_OPEN' }),
  v('record-bit-in-hash', ['D-15', 'PSS-19'], 'one bit of hash', flip(first, 60), { error: 'AEAD_OPEN' }),
  v('record-bit-in-text', ['D-15'], 'one bit of the sealed items', flip(first, 85), { error: 'AEAD_OPEN' }),
  v('record-bit-in-tag', ['D-15'], 'one bit of the tag', flip(first, first.length - 1), { error: 'AEAD_OPEN' }),
  v('record-critical-flag', ['PSS-17'], 'bit 6 is refused when set', record({ flags: 64, rec: 1n, seq: 1n, hash: h1, plain: I(one) }), {
    error: 'FRAME_FLAGS'
  }),
  v('record-fin-ack-on-data', ['PSS-17'], 'FIN-ACK belongs to TEARDOWN', record({ flags: 32, rec: 1n, seq: 1n, hash: h1, plain: I(one) }), {
    error: 'FRAME_FLAGS'
  }),
  v(
    'record-negotiable-flag',
    ['PSS-17'],
    'a capability flag of the handshake has no place here',
    record({ flags: 1, rec: 1n, seq: 1n, hash: h1, plain: I(one) }),
    { error: 'FRAME_FLAGS' }
  ),
  v('record-handshake-type', ['PSS-17', 'PSS-11'], 'type 0x08 after ESTABLISHED', flip(first, 1, 3), { error: 'FRAME_LENGTH' }),
  v('record-close-type', ['PSS-17'], 'CLOSE after ESTABLISHED', Buffer.concat([u(1, 1), u(0xf1, 1), u(0, 2), u(2, 4), iC, rC, u(2, 2)]), {
    error: 'FRAME_TYPE'
  }),
  v(
    'record-hash-without-seq',
    ['PSS-19'],
    'a record without transactions carries a hash',
    record({ rec: 1n, hash: h1, plain: I([[0x85, 1, t('x')]]) }),
    { error: 'SEQUENCE' }
  ),
  v('record-cut', ['PSS-17'], 'the last byte is missing', first.subarray(0, -1), { error: 'TRUNCATED' }),
  v('record-trailing', ['PSS-17'], 'a byte after the body', Buffer.concat([first, u(0, 1)]), { error: 'TRAILING_BYTES' }),
  v(
    'record-too-long',
    ['PSS-17'],
    'body 1 MiB + 4,097: refused from the header alone',
    Buffer.concat([u(1, 1), u(0x0b, 1), u(0, 2), u(1048576 + 4097, 4), iC, rC]),
    { error: 'FRAME_LENGTH' }
  ),
  v('record-version-2', ['PSS-17'], 'another version', flip(first, 0, 3), { error: 'FRAME_VERSION' })
])

// ── READY ──
const ready = ({ rx = 0n, rxH = fill(0x23), tx = 0n, txH = fill(0x13), flags = 0, heads = [], count = heads.length }) =>
  Buffer.concat([u(rx, 8), rxH, u(tx, 8), txH, u(flags, 1), u(count, 1), ...heads.map(([c, n, d]) => Buffer.concat([u(c, 2), u(n, 8), d]))])
const rdec = ({ rx = 0n, rxH = fill(0x23), tx = 0n, txH = fill(0x13), eseLost = false, heads = [] }) => ({
  rxSeq: String(rx),
  rxHash: hex(rxH),
  txSeq: String(tx),
  txHash: hex(txH),
  eseLost,
  heads: heads.map(([c, n, d]) => ({ channel: c, number: String(n), digest: hex(d) }))
})
const r1 = {},
  r2 = { rx: 4294967296n, tx: 9007199254740993n },
  heads = [
    [1, 12n, fill(1)],
    [2, 11n, fill(2)]
  ]
put('pss-ready.json', [
  {
    id: 'ready-first',
    req: ['PSS-17'],
    note: 'a first exchange: numbers 0, hashes the chain secrets h_0, no heads',
    hex: hex(ready(r1)),
    decoded: rdec(r1)
  },
  { id: 'ready-large', req: ['F076'], note: 'numbers beyond 32 and 53 bits', hex: hex(ready(r2)), decoded: rdec(r2) },
  {
    id: 'ready-heads',
    req: ['PSS-07'],
    note: 'two channels ahead of rx seq 10, ESE lost',
    hex: hex(ready({ rx: 10n, heads, flags: 1 })),
    decoded: rdec({ rx: 10n, heads, eseLost: true })
  },
  { id: 'ready-unknown-flag', req: ['PSS-17'], note: 'flag bit 1', hex: hex(ready({ flags: 2 })), error: 'RANGE' },
  {
    id: 'ready-heads-unsorted',
    req: ['PSS-17'],
    note: 'channels must rise',
    hex: hex(ready({ rx: 10n, heads: [heads[1], heads[0]] })),
    error: 'RANGE'
  },
  {
    id: 'ready-head-behind',
    req: ['PSS-17'],
    note: 'a head that is not ahead of rx seq',
    hex: hex(ready({ rx: 11n, heads })),
    error: 'RANGE'
  },
  { id: 'ready-65-heads', req: ['PSS-17'], note: 'count 65 is refused before any is read', hex: hex(ready({ count: 65 })), error: 'RANGE' },
  {
    id: 'ready-cut',
    req: ['PSS-17'],
    note: 'count says 2, one head follows',
    hex: hex(ready({ rx: 10n, heads: [heads[0]], count: 2 })),
    error: 'TRUNCATED'
  },
  { id: 'ready-trailing', req: ['PSS-17'], note: 'a byte too many', hex: hex(Buffer.concat([ready(r1), u(0, 1)])), error: 'TRAILING_BYTES' }
])

// ── TEARDOWN ──
const cp = ({ s = sid, e = epoch, dir = 0, seq = 3n, h = h3, who = eid, by = seed } = {}) => {
  const m = Buffer.concat([s, e, u(dir, 1), u(seq, 8), h, who])
  return Buffer.concat([m, sign(null, Buffer.concat([label('checkpoint'), m]), pk8(by))])
}
const td = ({ reason = 0, seq = 3n, h = h3, c = cp() } = {}) => Buffer.concat([u(reason, 2), u(seq, 8), h, c])
const subject = { sid: hex(sid), epoch: hex(epoch), direction: 0, eid: hex(eid), heldSeq: '3', heldHash: hex(h3) }
const w = (id, req, note, bytes, rest, g = subject) => ({ id, req, note, given: g, hex: hex(bytes), ...rest })
put('pss-teardown.json', [
  w('teardown-done', ['TRM-01', 'TRM-03'], 'reason 0, three transactions, checkpoint by the sending EID (seed a1…a1)', td(), {
    decoded: { reason: 0, finalSeq: '3', finalHash: hex(h3) }
  }),
  w('teardown-unknown-reason', ['TRM-01'], 'a reason of a later version is a reason', td({ reason: 4660 }), {
    decoded: { reason: 4660, finalSeq: '3', finalHash: hex(h3) }
  }),
  w('teardown-refusal', ['PSS-10'], 'two bytes: a refusal or a break-off (4 = policy)', u(4, 2), { decoded: { reason: 4 } }),
  w(
    'teardown-tampered-checksum',
    ['TRM-03'],
    'the terminal checksum is another than the receiver computed',
    td({ h: h2, c: cp({ h: h2 }) }),
    { error: 'HASH_MISMATCH' }
  ),
  w('teardown-more-than-came', ['TRM-03'], 'ends at 4, 3 arrived', td({ seq: 4n, c: cp({ seq: 4n }) }), { error: 'SEQUENCE' }),
  w('teardown-checkpoint-of-another-point', ['TRM-03'], 'checkpoint signed for transaction 2', td({ c: cp({ seq: 2n, h: h2 }) }), {
    error: 'SEQUENCE'
  }),
  w('teardown-bad-signature', ['TRM-03'], "one bit of the checkpoint's signature", flip(td(), 226), { error: 'SIGNATURE_INVALID' }),
  w('teardown-other-signer', ['TRM-03'], 'signed by another key in the name of the EID', td({ c: cp({ by: fill(0xb2) }) }), {
    error: 'SIGNATURE_INVALID'
  }),
  w('teardown-other-session', ['TRM-03'], 'checkpoint of another session', td({ c: cp({ s: fill(0x42, 16) }) }), {
    error: 'FIELD_INVALID'
  }),
  w('teardown-other-epoch', ['TRM-03'], 'checkpoint of an earlier epoch', td({ c: cp({ e: fill(0x50) }) }), { error: 'FIELD_INVALID' }),
  w('teardown-reflected', ['TRM-03'], 'checkpoint of the other direction', td({ c: cp({ dir: 1 }) }), { error: 'FIELD_INVALID' }),
  w('teardown-cut', ['TRM-01'], 'ends inside the checkpoint', td().subarray(0, -1), { error: 'TRUNCATED' }),
  w('teardown-trailing', ['TRM-01'], 'a byte too many', Buffer.concat([td(), u(0, 1)]), { error: 'TRAILING_BYTES' }),
  w('teardown-empty', ['TRM-01'], 'no reason', Buffer.alloc(0), { error: 'TRUNCATED' })
])
