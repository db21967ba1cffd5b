"""Makes mail.json: `mail` records once more, from their specification and in another language, so that the vectors do not inherit a mistake of
the code they test.

    python3 protocol/vectors/mail.py     (Python >= 3.11, package `cryptography`)
"""
import json
import pathlib
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

HERE = pathlib.Path(__file__).parent
T = 1_800_000_000
NOW = T * 1000 + 500
TTL = 7 * 86_400


def raw(key):
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def head(major, n):
    for info, size, form in ((None, 24, None), (24, 1 << 8, ">B"), (25, 1 << 16, ">H"), (26, 1 << 32, ">I"), (27, 1 << 64, ">Q")):
        if n < size:
            return bytes([major << 5 | (n if info is None else info)]) + (b"" if form is None else struct.pack(form, n))
    raise ValueError(n)


def cbor(value, order=None):
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
    keys = order or sorted(value, key=lambda key: (len(key), key.encode()))
    return head(5, len(keys)) + b"".join(cbor(key) + cbor(value[key]) for key in keys)


A, B, C = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2, 3))
MBOX = raw(X25519PrivateKey.from_private_bytes(bytes([9]) * 32))


def payload(**change):
    fields = {"v": 1, "eid": raw(A), "mbox": MBOX, "keepers": [raw(B)], "gen": T * 1000, "ts": T, "exp": T + TTL, **change}
    return {name: value for name, value in fields.items() if value is not None}


def record(fields=None, signer=A, kind="mail", context=b"rookery/v1/record/mail\0", body=None):
    body = cbor(fields) if body is None else body
    return cbor([kind, body, signer.sign(context + body)])


rows = []


def row(id_, req, note, data, error=None, decoded=None, now=NOW, key=None):
    shown = {"error": error} if error else {"decoded": {name: value.hex() if isinstance(value, bytes) else
                                                       [item.hex() for item in value] if isinstance(value, list) else value
                                                       for name, value in decoded.items() if name != "v"}}
    rows.append({"id": id_, "req": req, "note": note, "nowMs": now, "key": (key or b"/mail/" + raw(A)).hex(), "hex": data.hex(), **shown})


def good(id_, req, note, now=NOW, **change):
    fields = payload(**change)
    row(id_, req, note, record(fields), decoded=fields, now=now)


def bad(id_, req, note, error, now=NOW, **change):
    row(id_, req, note, record(payload(**change)), error, now=now)


good("plain", "G-18", "one keeper")
good("nobody", "G-18", "no keeper any more: who knew the one before leaves nothing there", keepers=[])
good("full", "D-30", "four keepers", keepers=[raw(B), raw(C), raw(B), raw(C)])
good("tombstone", "D-26", "gone for good", keepers=[], gone=True)
good("last-ms", "DS-18", "read one millisecond before it ends", now=(T + TTL) * 1000 - 1)
good("future-120", "F085", "dated 120 s ahead is still read", now=(T - 120) * 1000)
good("sequence-60s", "F085", "number 60,000 ms ahead of its own time", gen=T * 1000 + 60_000)
bad("expired", "DS-18", "read in the second in which it ends", "RECORD_EXPIRED", now=(T + TTL) * 1000)
bad("future-121", "F085", "dated 121 s ahead", "RECORD_FUTURE", now=(T - 121) * 1000)
bad("ttl-over", "G-28", "lives one second too long", "RECORD_TTL", exp=T + TTL + 1)
bad("ttl-zero", "G-28", "ends when it begins", "RECORD_TTL", exp=T)
bad("tombstone-short", "G-23", "a tombstone that would not outlive what it ends", "RECORD_TTL", keepers=[], gone=True, exp=T + TTL - 1)
bad("sequence-ahead", "F085", "number 60,001 ms ahead of its own time", "RECORD_SEQUENCE", gen=T * 1000 + 60_001)
bad("keepers-5", "D-30", "five keepers", "FIELD_INVALID", keepers=[raw(B)] * 5)
bad("keeper-31", "D-30", "a keeper of 31 bytes", "FIELD_INVALID", keepers=[raw(B)[:31]])
bad("mbox-31", "D-30", "a mailbox key of 31 bytes", "FIELD_INVALID", mbox=MBOX[:31])
bad("eid-33", "D-19", "an EID of 33 bytes", "FIELD_INVALID", eid=raw(A) + b"\0")
bad("version-2", "DS-07", "payload version 2", "FIELD_INVALID", v=2)
bad("gone-false", "G-23", "gone is true or absent", "FIELD_INVALID", gone=False)
bad("unknown-member", "DS-07", "an address: where the agent is stands in its locator alone", "FIELD_UNKNOWN", addrs=["/ip4/192.0.2.7/udp/4001/quic-v1"])
for name in ("v", "eid", "mbox", "keepers", "gen", "ts", "exp"):
    bad(f"missing-{name}", "DS-07", f"without {name}", "FIELD_MISSING", **{name: None})
row("names-victim", "D-26", "names A, signed by B, higher generation", record(payload(gen=T * 1000 + 1), signer=B), "SIGNATURE_INVALID")
row("sig-bare", "G-28", "signed without the context", record(payload(), context=b""), "SIGNATURE_INVALID")
row("sig-locator", "G-28", "signed as a locator", record(payload(), context=b"rookery/v1/record/locator\0"), "SIGNATURE_INVALID")
row("other-kind", "G-28", "a mail record that calls itself a locator", record(payload(), kind="locator"), "RECORD_KIND")
row("key-of-another", "DS-09", "a record of A under the key of B", record(payload()), "RECORD_KEY_MISMATCH", key=b"/mail/" + raw(B))
row("locator-key", "DS-09", "under the key of A's locator", record(payload()), "RECORD_KIND", key=b"/eid/" + raw(A))
row("unsorted", "D-30", "payload keys in another order", record(body=cbor(payload(), order=list(reversed(sorted(payload()))))), "CBOR_NOT_CANONICAL")
row("trailing", "D-30", "one byte too many", record(payload()) + b"\0", "CBOR_INVALID")
row("too-large", "D-30", "1793 bytes", bytes(1_793), "TOO_LARGE")
row("empty", "F031", "no bytes", b"", "CBOR_INVALID")

ids = [one["id"] for one in rows]
assert len(ids) == len(set(ids))
(HERE / "mail.json").write_text("[\n" + ",\n".join("  " + json.dumps(one, ensure_ascii=False) for one in rows) + "\n]\n")
print("mail", len(rows), "rows")
