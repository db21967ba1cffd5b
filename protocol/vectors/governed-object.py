"""Makes governed-object.json and mailbox.json: objects, deposits and receipts once more, from their specification and in another
language, so that the vectors do not inherit a mistake of the code they test.

    python3 protocol/vectors/governed-object.py     (Python >= 3.11, package `cryptography`)
"""
import hashlib
import hmac
import json
import pathlib
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

HERE = pathlib.Path(__file__).parent
IAT = 1_800_000_000_000
EXP = IAT + 3_600_000
NOW = IAT + 1_000


def H(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def label(name):
    return b"rookery/v1/" + name.encode() + b"\0"


def fixed(name, n=32):
    """Stands for randomness: bytes anyone can make again."""
    return H(b"vector/" + name.encode())[:n]


def raw(key):
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


# CBOR: integers, bytes, text, lists, maps with keys sorted by length, then bytes
def head(major, n):
    for info, size, form in ((None, 24, None), (24, 1 << 8, ">B"), (25, 1 << 16, ">H"), (26, 1 << 32, ">I"), (27, 1 << 64, ">Q")):
        if n < size:
            return bytes([major << 5 | (n if info is None else info)]) + (b"" if form is None else struct.pack(form, n))
    raise ValueError(n)


def cbor(value):
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    keys = sorted(value, key=lambda key: (len(key), key.encode()))
    return head(5, len(keys)) + b"".join(cbor(key) + cbor(value[key]) for key in keys)


# HPKE base mode (RFC 9180): DHKEM(X25519, HKDF-SHA256) 0x0020, HKDF-SHA256 0x0001, AES-256-GCM 0x0002
KEM_SUITE = b"KEM" + struct.pack(">H", 0x0020)
SUITE = b"HPKE" + struct.pack(">HHH", 0x0020, 0x0001, 0x0002)


def extract(suite, salt, name, ikm):
    return hmac.new(salt or bytes(32), b"HPKE-v1" + suite + name + ikm, hashlib.sha256).digest()


def expand(suite, prk, name, info, n):
    info = struct.pack(">H", n) + b"HPKE-v1" + suite + name + info
    out, last, i = b"", b"", 1
    while len(out) < n:
        last = hmac.new(prk, last + info + bytes([i]), hashlib.sha256).digest()
        out += last
        i += 1
    return out[:n]


def hpke_seal(recipient, ephemeral, info, aad, plaintext):
    secret = X25519PrivateKey.from_private_bytes(ephemeral)
    enc = raw(secret)
    dh = secret.exchange(X25519PublicKey.from_public_bytes(recipient))
    shared = expand(KEM_SUITE, extract(KEM_SUITE, b"", b"eae_prk", dh), b"shared_secret", enc + recipient, 32)
    context = b"\0" + extract(SUITE, b"", b"psk_id_hash", b"") + extract(SUITE, b"", b"info_hash", info)
    secret = extract(SUITE, shared, b"secret", b"")
    key = expand(SUITE, secret, b"key", context, 32)
    nonce = expand(SUITE, secret, b"base_nonce", context, 12)
    return enc, AESGCM(key).encrypt(nonce, plaintext, aad)


ISSUER_SEED, KEEPER_SEED = fixed("object issuer"), fixed("object keeper")
ISSUER, KEEPER = (Ed25519PrivateKey.from_private_bytes(seed) for seed in (ISSUER_SEED, KEEPER_SEED))
AUDIENCE = raw(Ed25519PrivateKey.from_private_bytes(fixed("object audience")))
MAILBOX_SECRET = fixed("mailbox secret")
MAILBOX = raw(X25519PrivateKey.from_private_bytes(MAILBOX_SECRET))
EPHEMERAL = fixed("object ephemeral")
PLAINTEXT = b'{"method":"SendMessage","params":{"message":{"messageId":"m-1","parts":[{"text":"hello"}],"role":"ROLE_USER"}}}'
ID = H(label("object-id"), raw(ISSUER), AUDIENCE, b"m-1")[:16]


def sign(key, context, payload):
    return cbor([payload, key.sign(label(context) + payload)])


def members(**other):
    clear = {"v": 1, "id": ID, "iss": raw(ISSUER), "aud": AUDIENCE, "kid": H(MAILBOX)[:8], "purpose": "a2a:message", "iat": IAT, "exp": EXP}
    return clear | other


def payload(plaintext=PLAINTEXT, recipient=MAILBOX, **other):
    clear = members(**other)
    enc, ct = hpke_seal(recipient, EPHEMERAL, label("object"), cbor(clear), plaintext)
    return clear | {"enc": enc, "ct": ct}


def sealed(key=ISSUER, **other):
    return sign(key, "object-sig", cbor(payload(**other)))


good = payload()
KEYS = {
    "issuerSeed": ISSUER_SEED.hex(),
    "keeperSeed": KEEPER_SEED.hex(),
    "audience": AUDIENCE.hex(),
    "mailboxSecret": MAILBOX_SECRET.hex(),
    "mailboxKey": MAILBOX.hex(),
    "ephemeralSecret": EPHEMERAL.hex(),
    "nowMs": NOW,
}
DECODED = {
    "id": ID.hex(),
    "issuer": raw(ISSUER).hex(),
    "audience": AUDIENCE.hex(),
    "kid": H(MAILBOX)[:8].hex(),
    "purpose": "a2a:message",
    "issuedAtMs": IAT,
    "expiresAtMs": EXP,
    "messageId": "m-1",
    "plaintext": PLAINTEXT.hex(),
}


def row(name, req, note, data, **rest):
    return {"id": name, "req": req, "note": note, **rest, "hex": data.hex()}


flipped = bytearray(sign(ISSUER, "object-sig", cbor(good)))
flipped[-1] ^= 1
body = cbor(good)
tampered = cbor(good | {"ct": good["ct"][:-1] + bytes([good["ct"][-1] ^ 1])})
objects = [
    {"id": "keys", "req": "OD-03", "note": "the keys, the sealing randomness and the clock of the rows below", "hex": "", "keys": KEYS},
    row("sealed", "OD-03", "a message to the audience's mailbox", sealed(), decoded=DECODED),
    row("life-longest", "OD-03", "exp - iat of six days exactly", sealed(exp=IAT + 6 * 86_400_000), decoded=DECODED | {"expiresAtMs": IAT + 6 * 86_400_000}),
    row("life-too-long", "OD-03", "one millisecond more than six days", sealed(exp=IAT + 6 * 86_400_000 + 1), error="OBJECT_LIFETIME"),
    row("life-none", "OD-03", "ends as it begins", sealed(exp=IAT), error="OBJECT_LIFETIME"),
    row("expired", "OD-35", "its end is now: the end is exclusive", sealed(iat=NOW - 10_000, exp=NOW), error="OBJECT_EXPIRED"),
    row("skew-taken", "F083", "issued 60 s ahead of the reader's clock", sealed(iat=NOW + 60_000, exp=EXP), decoded=DECODED | {"issuedAtMs": NOW + 60_000}),
    row("skew-refused", "F083", "issued 60,001 ms ahead", sealed(iat=NOW + 60_001, exp=EXP), error="OBJECT_FUTURE"),
    row("audience", "OD-33", "for another agent", sealed(aud=raw(KEEPER)), error="OBJECT_AUDIENCE"),
    row("signature-flipped", "OD-33", "last bit of the signature", bytes(flipped), error="SIGNATURE_INVALID"),
    row("signature-other-key", "OD-33", "signed by another than iss", sealed(key=KEEPER), error="SIGNATURE_INVALID"),
    row("signature-other-purpose", "OD-33", "the payload signed as a receipt", sign(ISSUER, "receipt", body), error="SIGNATURE_INVALID"),
    row("ciphertext-tampered", "OD-33", "a bit of ct changed and signed anew", sign(ISSUER, "object-sig", tampered), error="AEAD_OPEN"),
    row("aad-not-bound", "OD-33", "sealed for an end that the payload then changes", sign(ISSUER, "object-sig", cbor(good | {"exp": EXP + 1})), error="AEAD_OPEN"),
    row("kid-unknown", "OD-33", "names a mailbox key that is not held", sealed(kid=bytes(8)), error="OBJECT_KEY"),
    row("purpose-not-allowed", "OD-34", "well made, for a purpose that the reader does not take", sealed(purpose="other:thing"), error="OBJECT_PURPOSE"),
    row("purpose-upper-case", "OD-34", "purposes are lower case", sealed(purpose="A2A:message"), error="FIELD_INVALID"),
    row("member-unknown", "OD-33", "maps are closed", sign(ISSUER, "object-sig", cbor(good | {"x": 1})), error="FIELD_UNKNOWN"),
    row("member-missing", "OD-33", "no id", sign(ISSUER, "object-sig", cbor({k: v for k, v in good.items() if k != "id"})), error="FIELD_MISSING"),
    row("version", "OD-33", "v is 1", sign(ISSUER, "object-sig", cbor(good | {"v": 2})), error="FIELD_INVALID"),
    row("three-items", "OD-33", "no pair", cbor([body, bytes(64), 1]), error="FIELD_INVALID"),
    row("truncated", "OD-33", "ends inside the signature", sealed()[:-1], error="CBOR_INVALID"),
    row("trailing", "OD-33", "a byte too many", sealed() + b"\0", error="CBOR_INVALID"),
    row("long-form", "OD-33", "the array's length in two bytes", b"\x98\x02" + sealed()[1:], error="CBOR_INVALID"),
]
(HERE / "governed-object.json").write_text(json.dumps(objects, indent=1) + "\n")

OBJECT = sealed()
UNTIL = EXP
receipt_body = {"v": 1, "hash": H(OBJECT), "id": ID, "iss": raw(ISSUER), "aud": AUDIENCE, "until": UNTIL}
RECEIPT = sign(KEEPER, "receipt", cbor(receipt_body))
facts = {"objectHash": H(OBJECT).hex(), "id": ID.hex(), "issuer": raw(ISSUER).hex(), "audience": AUDIENCE.hex(), "storedUntilMs": UNTIL}


def message(**fields):
    return cbor({"v": 1} | fields)


mailbox = [
    {"id": "keys", "req": "OD-14", "note": "the keeper and the object deposited", "hex": OBJECT.hex(), "keys": KEYS},
    row("deposit", "OD-14", "request 7", message(t="deposit", req=7, object=OBJECT), decoded={"type": "deposit", "request": 7, "object": OBJECT.hex()}),
    row("receipt", "OD-22", "its answer", message(t="receipt", req=7, receipt=RECEIPT), decoded={"type": "receipt", "request": 7, "receipt": RECEIPT.hex()}),
    row("full", "OD-47", "a bound is reached", message(t="refusal", req=8, code="asleep_queue_full", kind="peer", now=NOW), decoded={"type": "refusal", "request": 8, "code": "asleep_queue_full", "kind": "peer", "nowMs": NOW}),
    row("invalid", "OD-33", "with the code it failed with", message(t="refusal", req=9, code="invalid", reason="OBJECT_FUTURE", now=NOW), decoded={"type": "refusal", "request": 9, "code": "invalid", "reason": "OBJECT_FUTURE", "nowMs": NOW}),
    row("full-without-kind", "OD-47", "which bound is not optional", message(t="refusal", req=8, code="asleep_queue_full", now=NOW), error="FIELD_INVALID"),
    row("kind-elsewhere", "OD-47", "a kind without a full queue", message(t="refusal", req=8, code="conflict", kind="peer", now=NOW), error="FIELD_INVALID"),
    row("code-unknown", "OD-44", "codes are a closed set", message(t="refusal", req=8, code="busy", now=NOW), error="FIELD_INVALID"),
    row("type-unknown", "OD-44", "message types are a closed set", message(t="hold", req=8), error="FIELD_INVALID"),
    row("request-beyond-u32", "OD-14", "request numbers are u32", message(t="deposit", req=1 << 32, object=OBJECT), error="FIELD_INVALID"),
    row("object-empty", "OD-14", "nothing to deposit", message(t="deposit", req=1, object=b""), error="FIELD_INVALID"),
    row("member-unknown", "OD-14", "maps are closed", message(t="deposit", req=1, object=OBJECT, x=1), error="FIELD_UNKNOWN"),
    row("receipt-signed", "OD-22", "the receipt alone", RECEIPT, receipt=facts),
    row("receipt-other-signer", "OD-22", "signed by the issuer instead of the keeper", sign(ISSUER, "receipt", cbor(receipt_body)), receiptError="SIGNATURE_INVALID"),
    row("receipt-other-context", "OD-22", "signed as an object", sign(KEEPER, "object-sig", cbor(receipt_body)), receiptError="SIGNATURE_INVALID"),
    row("receipt-other-object", "OD-22", "for other bytes", sign(KEEPER, "receipt", cbor(receipt_body | {"hash": bytes(32)})), receiptError="OBJECT_CONFLICT"),
    row("receipt-other-audience", "OD-22", "for another audience", sign(KEEPER, "receipt", cbor(receipt_body | {"aud": raw(KEEPER)})), receiptError="OBJECT_CONFLICT"),
]
(HERE / "mailbox.json").write_text(json.dumps(mailbox, indent=1) + "\n")
