"""Makes pom.json and rotation.json: proofs of malfeasance and rotation certificates once more, from their specification and in another
language, so that the vectors do not inherit a mistake of the code they test.

    python3 protocol/vectors/pom.py     (Python >= 3.11, package `cryptography`)
"""
import hashlib
import json
import pathlib
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

HERE = pathlib.Path(__file__).parent
T = 1_800_000_000
NOW = T * 1000 + 500
TTL = 30 * 86_400
ORDER = 2**252 + 27742317777372353535851937790883648493


def H(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def fixed(name, n=32):
    """Stands for randomness: bytes anyone can make again."""
    return H(b"vector/" + name.encode())[:n]


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


class Key:
    def __init__(self, n):
        self.seed = bytes([n]) * 32
        self.secret = Ed25519PrivateKey.from_private_bytes(self.seed)
        self.eid = self.secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def sign(self, label, data):
        return self.secret.sign(b"rookery/v1/" + label.encode() + b"\0" + data)


MALLORY, ALICE, BOB = Key(1), Key(2), Key(3)


def record(kind, payload, signer, raw=None):
    body = raw if raw is not None else cbor(payload)
    return cbor([kind, body, signer.sign("record/" + kind, body)])


def locator(signer=MALLORY, gen=T * 1000, order=None, **change):
    payload = {"v": 1, "eid": signer.eid, "peer": "12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf", "addrs": ["/ip4/192.0.2.7/udp/4001/quic-v1"],
               "mbox": fixed("mbox"), "mode": "always_on", "keepers": [], "gen": gen, "ts": T, "exp": T + 86_400, **change}
    return record("locator", payload, signer, cbor(payload, order and order(payload)))


def mail(signer=MALLORY, gen=T * 1000, **change):
    return record("mail", {"v": 1, "eid": signer.eid, "mbox": fixed("mbox"), "keepers": [], "gen": gen, "ts": T, "exp": T + 7 * 86_400, **change}, signer)


def announce(signer=MALLORY, seq=T * 1000, topic="marketplace.energy", **change):
    return record("announce", {"v": 1, "ns": "org.agentnet", "topic": topic, "ver": 1, "desc": "Energy offers", "curator": signer.eid, "seeds": [],
                               "policy": "open", "shards": 1, "seq": seq, "ts": T, "exp": T + 86_400, **change}, signer)


def checkpoint(signer=MALLORY, sid="sid", epoch="epoch", direction=0, seq=1024, h="h", named=None):
    body = fixed(sid, 16) + fixed(epoch) + bytes([direction]) + struct.pack(">Q", seq) + fixed(h) + (named or signer).eid
    assert len(body) == 121
    return body + signer.sign("checkpoint", body)


def group(signer=MALLORY, gid="gid", epoch=7, run="run", n=5, g="g"):
    body = fixed(gid, 16) + struct.pack(">I", epoch) + signer.eid + fixed(run, 16) + struct.pack(">Q", n) + fixed(g)
    assert len(body) == 108
    return body + signer.sign("group-op", body)


def pom(kind, a, b, target=MALLORY, accuser=ALICE, signer=None, **change):
    payload = {"v": 1, "target": target.eid, "accuser": accuser.eid, "kind": kind, "a": a, "b": b, "ts": T, "exp": T + TTL, **change}
    return record("pom", {k: v for k, v in payload.items() if v is not None}, signer or accuser)


def js(value):
    return value.hex() if isinstance(value, bytes) else value


rows = []


def key_of(target):
    return H(b"pom", target.eid)


def good(id_, req, note, kind, a, b, **more):
    rows.append({"id": id_, "req": req, "note": note, "nowMs": NOW, "key": key_of(MALLORY).hex(), "hex": pom(kind, a, b, **more).hex(),
                 "decoded": {"target": MALLORY.eid.hex(), "accuser": ALICE.eid.hex(), "kind": kind, "a": a.hex(), "b": b.hex(), "ts": T, "exp": T + TTL}})


def bad(id_, req, note, error, kind, a, b, now=NOW, key=None, **more):
    rows.append({"id": id_, "req": req, "note": note, "nowMs": now, "key": (key or key_of(MALLORY)).hex(), "hex": pom(kind, a, b, **more).hex(), "error": error})


def raw(id_, req, note, error, data, key=None):
    rows.append({"id": id_, "req": req, "note": note, "nowMs": NOW, "key": (key or key_of(MALLORY)).hex(), "hex": data.hex(), "error": error})


A, B = locator(), locator(addrs=["/ip4/198.51.100.9/udp/4001/quic-v1"])
good("locator", "IX-27", "two locators of one generation with different addresses", "locator", A, B)
good("locator-order", "IX-27", "the same two the other way round", "locator", B, A)
good("locator-old", "TRM-07", "both expired years ago: their times are not looked at", "locator",
     locator(gen=7, ts=1_000_000, exp=1_000_100), locator(gen=7, ts=2_000_000, exp=2_000_050, mode="sleep"))
good("locator-tombstone", "TRM-07", "a tombstone and a living locator of one generation", "locator", A, locator(addrs=[], gone=True))
good("locator-ahead", "TRM-07", "a number that no holder would take, signed twice", "locator", locator(gen=2**53 - 1), locator(gen=2**53 - 1, mode="sleep"))
good("checkpoint", "TRM-05", "one point of one epoch with two chain hashes", "checkpoint", checkpoint(), checkpoint(h="other"))
good("checkpoint-zero", "TRM-05", "before the first transaction too", "checkpoint", checkpoint(seq=0), checkpoint(seq=0, h="other"))
good("announce", "TRM-07", "two announcements of one space and number", "announce", announce(), announce(desc="Energy bids"))
good("group", "TRM-07", "two ops of one place in one run", "group", group(), group(g="other"))
good("group-epoch", "TRM-07", "two epochs of the group key for one place", "group", group(), group(epoch=8))

good("mail", "TRM-07", "two mail records of one generation that name other keepers", "mail", mail(), mail(keepers=[BOB.eid]))
bad("mail-gen", "TRM-08", "two generations of a mail record", "EVIDENCE_NO_CONFLICT", "mail", mail(), mail(gen=T * 1000 + 1))
bad("mail-locator", "D-24", "a mail record and a locator: their numbers are counted apart", "RECORD_KIND", "mail", mail(), A)
bad("junk", "D-24", "two bytes that are nothing: the prototype counted them", "CBOR_INVALID", "locator", b"\xff", b"\xfe")
bad("junk-checkpoint", "D-24", "two bytes as checkpoints", "LENGTH", "checkpoint", b"\x01", b"\x02")
bad("empty", "D-24", "an item of no bytes", "FIELD_INVALID", "locator", b"", B)
bad("self-made", "D-24", "the accuser signed both in the target's name", "SIGNATURE_INVALID", "locator",
    record("locator", {"v": 1, "eid": MALLORY.eid, "peer": "12D3KooW", "addrs": [], "mbox": fixed("mbox"), "mode": "sleep", "keepers": [], "gen": 1, "ts": T, "exp": T + 60}, ALICE),
    record("locator", {"v": 1, "eid": MALLORY.eid, "peer": "12D3KooW", "addrs": [], "mbox": fixed("mbox"), "mode": "session", "keepers": [], "gen": 1, "ts": T, "exp": T + 60}, ALICE))
bad("half-made", "D-24", "one true item and one that the accuser made", "SIGNATURE_INVALID", "checkpoint", checkpoint(), checkpoint(ALICE, h="other", named=MALLORY))
bad("same-twice", "D-24", "one locator twice", "EVIDENCE_SAME", "locator", A, A)
bad("same-checkpoint", "D-24", "one checkpoint twice", "EVIDENCE_SAME", "checkpoint", checkpoint(), checkpoint())
bad("same-group", "D-24", "one op twice", "EVIDENCE_SAME", "group", group(), group())
bad("same-announce", "D-24", "one announcement twice", "EVIDENCE_SAME", "announce", announce(), announce())
malleable = bytearray(checkpoint(h="other"))
s = int.from_bytes(malleable[-32:], "little") + ORDER
bad("malleable", "D-24", "a true pair, one signature with S + L", "SIGNATURE_INVALID", "checkpoint", checkpoint(), bytes(malleable[:-32]) + s.to_bytes(32, "little"))
bad("successive", "TRM-08", "two generations: what everybody signs", "EVIDENCE_NO_CONFLICT", "locator", A, locator(gen=T * 1000 + 1))
bad("checkpoint-seq", "TRM-08", "two points of one epoch", "EVIDENCE_NO_CONFLICT", "checkpoint", checkpoint(), checkpoint(seq=1025, h="other"))
bad("checkpoint-epoch", "TRM-08", "one number in two epochs: what a crash or a restored backup makes", "EVIDENCE_NO_CONFLICT", "checkpoint", checkpoint(), checkpoint(epoch="next", h="other"))
bad("checkpoint-sid", "TRM-08", "one number in two sessions", "EVIDENCE_NO_CONFLICT", "checkpoint", checkpoint(), checkpoint(sid="next", h="other"))
bad("checkpoint-direction", "TRM-08", "both directions of one session", "EVIDENCE_NO_CONFLICT", "checkpoint", checkpoint(), checkpoint(direction=1, h="other"))
bad("checkpoint-direction-2", "TRM-08", "a direction that does not exist", "FIELD_INVALID", "checkpoint", checkpoint(direction=2), checkpoint(direction=2, h="other"))
bad("group-run", "TRM-08", "one number in two runs: what a crash makes", "EVIDENCE_NO_CONFLICT", "group", group(), group(run="next", g="other"))
bad("group-gid", "TRM-08", "one number in two groups", "EVIDENCE_NO_CONFLICT", "group", group(), group(gid="next", g="other"))
bad("announce-topic", "TRM-08", "one number in two spaces", "EVIDENCE_NO_CONFLICT", "announce", announce(), announce(topic="marketplace.water"))
bad("announce-seq", "TRM-08", "two numbers of one space", "EVIDENCE_NO_CONFLICT", "announce", announce(), announce(seq=T * 1000 + 1, desc="Energy bids"))
bad("other-target", "D-24", "both items are of another identity than the one accused", "EVIDENCE_TARGET", "locator", locator(BOB), locator(BOB, mode="sleep"))
bad("one-other-target", "D-24", "items of two identities", "EVIDENCE_TARGET", "locator", A, locator(BOB, mode="sleep"))
bad("other-target-checkpoint", "D-24", "checkpoints of another identity", "EVIDENCE_TARGET", "checkpoint", checkpoint(BOB), checkpoint(BOB, h="other"))
bad("other-target-group", "D-24", "ops of another writer", "EVIDENCE_TARGET", "group", group(BOB), group(BOB, g="other"))
bad("one-other-target-checkpoint", "D-24", "checkpoints of two identities", "EVIDENCE_TARGET", "checkpoint", checkpoint(), checkpoint(BOB, h="other"))
bad("one-other-target-group", "D-24", "ops of two writers", "EVIDENCE_TARGET", "group", group(), group(BOB, g="other"))
bad("cross-kind", "D-24", "a locator and an announcement of one number", "RECORD_KIND", "locator", A, announce())
bad("cross-kind-checkpoint", "D-24", "a group op as checkpoint", "LENGTH", "checkpoint", checkpoint(), group())
bad("unknown-kind", "D-24", "a kind that nobody can judge", "FIELD_INVALID", "join", A, B)
bad("other-encoding", "D-24", "one payload twice, once with its keys in another order", "CBOR_NOT_CANONICAL", "locator", A, locator(order=lambda p: list(reversed(sorted(p)))))
bad("other-envelope", "D-24", "one record twice, once with a longer head in its envelope", "CBOR_INVALID", "locator", A, b"\x98\x03" + A[1:])
bad("trailing", "D-24", "bytes after an item", "CBOR_INVALID", "locator", A, B + b"\0")
bad("checkpoint-long", "D-24", "a byte after a checkpoint", "LENGTH", "checkpoint", checkpoint(), checkpoint(h="other") + b"\0")
bad("too-large-item", "D-24", "an item above 1,792 bytes", "FIELD_INVALID", "locator", A, b"\0" * 1_793)
bad("other-key", "TRM-07", "put under another identity's key", "RECORD_KEY_MISMATCH", "locator", A, B, key=key_of(BOB))
bad("unsigned", "D-24", "true evidence, signed by another than the accuser named", "SIGNATURE_INVALID", "locator", A, B, signer=BOB)
bad("expired", "IX-27", "a ticket after its 30 days", "RECORD_EXPIRED", "locator", A, B, now=(T + TTL) * 1000)
bad("future", "IX-27", "a ticket dated more than 120 s ahead", "RECORD_FUTURE", "locator", A, B, now=(T - 121) * 1000)
bad("long-life", "IX-27", "a ticket for 31 days", "RECORD_TTL", "locator", A, B, exp=T + TTL + 86_400)
bad("gone", "D-25", "a ticket cannot be taken back", "FIELD_INVALID", "locator", A, B, gone=True)
bad("no-accuser", "D-24", "nobody accuses", "FIELD_MISSING", "locator", A, B, signer=ALICE, accuser=type("None", (), {"eid": None}))
bad("extra", "D-24", "a member that version 1 does not know", "FIELD_UNKNOWN", "locator", A, B, why="trust me")
raw("other-record", "D-24", "a locator in place of a ticket", "RECORD_KIND", A)
raw("not-cbor", "D-24", "three bytes", "CBOR_INVALID", b"\x83\x01\xff")
raw("huge", "D-24", "4,097 bytes", "TOO_LARGE", b"\0" * 4_097)

rotations = []


def certificate(old, new, ts=T, old_signer=None, new_signer=None, label="rotation", **change):
    payload = cbor({"v": 1, "old": old.eid, "new": new.eid, "ts": ts, **change})
    return cbor([payload, (old_signer or old).sign(label, payload), (new_signer or new).sign(label, payload)])


def rot(id_, note, data, error=None, **decoded):
    rotations.append({"id": id_, "req": "D-25", "note": note, "hex": data.hex(), **({"error": error} if error else {"decoded": {k: js(v) for k, v in decoded.items()}})})


C = certificate(MALLORY, BOB)
rot("plain", "old key and new key agree", C, old=MALLORY.eid, new=BOB.eid, ts=T)
rot("zero-ts", "its own date says nothing", certificate(MALLORY, BOB, ts=0), old=MALLORY.eid, new=BOB.eid, ts=0)
rot("one-byte", "the prototype took one byte for a counter-proof", b"\x13", "FIELD_INVALID")
rot("old-only", "the new key did not agree", certificate(MALLORY, BOB, new_signer=MALLORY), "SIGNATURE_INVALID")
rot("new-only", "the old key did not agree: anyone could retire anyone", certificate(MALLORY, BOB, old_signer=BOB), "SIGNATURE_INVALID")
rot("to-itself", "no rotation at all", certificate(MALLORY, MALLORY), "FIELD_INVALID")
rot("other-label", "signed for another purpose", certificate(MALLORY, BOB, label="record/rotation"), "SIGNATURE_INVALID")
rot("extra", "a member that version 1 does not know", certificate(MALLORY, BOB, why="because"), "FIELD_UNKNOWN")
rot("version-2", "another version", certificate(MALLORY, BOB, v=2), "FIELD_INVALID")
rot("trailing", "a byte after it", C + b"\0", "CBOR_INVALID")
rot("two-members", "one signature missing", cbor([cbor({"v": 1}), b"\0" * 64]), "FIELD_INVALID")
rot("small-order", "the new key is of small order, under which anything verifies", cbor([cbor({"v": 1, "old": MALLORY.eid, "new": b"\1" + b"\0" * 31, "ts": T}), b"\0" * 64, b"\0" * 64]), "KEY_INVALID")
rot("huge", "257 bytes", b"\0" * 257, "TOO_LARGE")

for name, items in (("pom", rows), ("rotation", rotations)):
    ids = [row["id"] for row in items]
    assert len(ids) == len(set(ids)), name
    (HERE / f"{name}.json").write_text("[\n" + ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in items) + "\n]\n")
    print(name, len(items), "rows")
