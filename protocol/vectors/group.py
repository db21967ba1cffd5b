"""Makes group.json: statements, keys, ops, vectors and requests of groups once more, from their specification and in another language.

    python3 protocol/vectors/group.py     (Python >= 3.11, package `cryptography`)
"""
import hashlib
import hmac
import json
import pathlib
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

HERE = pathlib.Path(__file__).parent
T = 1_800_000_000


def H(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def fixed(name, n=32):
    return H(b"vector/" + name.encode())[:n]


def context(label):
    return b"rookery/v1/" + label.encode() + b"\0"


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


class Key:
    def __init__(self, n):
        self.secret = Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32)
        self.eid = self.secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def sign(self, label, data):
        return self.secret.sign(context(label) + data)


OWNER, ANNA, BEN = Key(1), Key(2), Key(3)
GID, RUN, DGK = fixed("gid", 16), fixed("run", 16), fixed("dgk")


def commitment(gid, epoch, dgk):
    return H(context("group-dgk"), gid, struct.pack(">I", epoch), dgk)


def statement(signer=OWNER, label="group", members=None, **change):
    epoch = change.get("epoch", 7)
    listed = members if members is not None else sorted([[OWNER.eid, 1, False], [ANNA.eid, 5, True], [BEN.eid, 7, False]])
    payload = {"v": 1, "gid": GID, "owner": OWNER.eid, "epoch": epoch, "name": "board", "members": listed, "key": commitment(GID, epoch, DGK), "ts": T, **change}
    body = cbor({key: value for key, value in payload.items() if value is not None})
    return cbor([body, signer.sign(label, body)])


def shown(epoch=7, name="board", members=None):
    listed = members or sorted([[OWNER.eid, 1, False], [ANNA.eid, 5, True], [BEN.eid, 7, False]])
    return {"gid": GID.hex(), "owner": OWNER.eid.hex(), "epoch": epoch, "name": name, "ts": T, "key": commitment(GID, epoch, DGK).hex(),
            "members": [[eid.hex(), since, "snapshot" if history else "none"] for eid, since, history in listed]}


def key_item(body=None, epoch=7, dgk=DGK, gid=GID):
    return gid + struct.pack(">I", epoch) + dgk + (statement() if body is None else body)


def expand(prk, info):
    return hmac.new(prk, info + b"\x01", hashlib.sha256).digest()


def op(n=1, before=None, body=b"\x02hello", epoch=7, writer=ANNA, dgk=DGK, flip=None):
    g = before if before is not None else H(context("group-run"), GID, writer.eid, RUN)
    place = GID + struct.pack(">I", epoch) + writer.eid + RUN + struct.pack(">Q", n)
    sealed = AESGCM(expand(dgk, context("group") + GID + writer.eid + RUN)).encrypt(b"\0" * 4 + struct.pack(">Q", n), body, place)
    gn = H(g, struct.pack(">Q", n), H(sealed))
    return place + gn + writer.sign("group-op", place + gn) + sealed, gn


def point(writer, n, run=RUN):
    return writer.eid + run + struct.pack(">Q", n) + fixed(f"g{n}")


def vector(runs, epoch=7, keys=0b101, count=None):
    return b"\x01" + GID + struct.pack(">II", epoch, keys) + bytes([len(runs) if count is None else count]) + b"".join(runs)


def ready(runs, count=None):
    return bytes([len(runs) if count is None else count]) + b"".join(runs)


def want(start=3, count=512):
    return b"\x02" + GID + ANNA.eid + RUN + struct.pack(">QH", start, count)


def point_shown(writer, n):
    return {"writer": writer.eid.hex(), "run": RUN.hex(), "n": str(n), "gn": fixed(f"g{n}").hex()}


first, g1 = op()
second, g2 = op(2, g1, b"\x01" + struct.pack(">Q", T * 1000) + b"")
many = [[fixed(f"m{i}"), 1, True] for i in range(63)]
V = []


def good(kind, id, req, note, data, decoded):
    V.append({"kind": kind, "id": id, "req": req, "note": note, "hex": data.hex(), "decoded": decoded})


def bad(kind, id, req, note, data, error):
    V.append({"kind": kind, "id": id, "req": req, "note": note, "hex": data.hex(), "error": error})


good("statement", "three", "PSS-24", "an owner and two members", statement(), shown())
good("statement", "full", "PSS-24", "as many members as there can be", statement(members=sorted([[OWNER.eid, 1, False], *many])), shown(members=sorted([[OWNER.eid, 1, False], *many])))
bad("statement", "too-many", "PSS-24", "65 members", statement(members=sorted([[OWNER.eid, 1, False], *many, [fixed("one more"), 1, False]])), "TOO_LARGE" if len(statement(members=sorted([[OWNER.eid, 1, False], *many, [fixed("one more"), 1, False]]))) > 4044 else "FIELD_INVALID")
bad("statement", "other-signer", "PSS-24", "a member signs in place of the owner", statement(signer=ANNA), "SIGNATURE_INVALID")
bad("statement", "other-label", "PSS-24", "signed for another purpose", statement(label="rotation"), "SIGNATURE_INVALID")
bad("statement", "without-owner", "PSS-24", "the owner is no member", statement(members=sorted([[ANNA.eid, 5, True], [BEN.eid, 7, False]])), "FIELD_INVALID")
bad("statement", "unsorted", "PSS-24", "members out of order", statement(members=sorted([[OWNER.eid, 1, False], [ANNA.eid, 5, True]], reverse=True)), "FIELD_INVALID")
bad("statement", "twice", "PSS-24", "a member twice", statement(members=[[OWNER.eid, 1, False], [OWNER.eid, 1, False]]), "FIELD_INVALID")
bad("statement", "since-later", "PSS-24", "a membership that begins after the epoch", statement(members=[[OWNER.eid, 8, False]]), "FIELD_INVALID")
bad("statement", "epoch-0", "PSS-24", "epochs begin at 1", statement(epoch=0, members=[[OWNER.eid, 1, False]]), "FIELD_INVALID")
bad("statement", "extra", "PSS-24", "a member of the map that version 1 does not know", statement(extra=1), "FIELD_UNKNOWN")
bad("statement", "no-key", "PSS-24", "no commitment to a key", statement(key=None), "FIELD_MISSING")
bad("statement", "long-name", "PSS-24", "a name of 65 bytes", statement(name="n" * 65), "FIELD_INVALID")
bad("statement", "trailing", "PSS-24", "a byte after it", statement() + b"\0", "CBOR_INVALID")
good("key", "member", "PSS-24", "an epoch's key for a member", key_item(), {"epoch": 7, "dgk": DGK.hex()})
good("key", "notice", "PSS-24", "zeros: the receiver is no member any more", key_item(dgk=b"\0" * 32), {"epoch": 7})
bad("key", "other-key", "PSS-24", "not the key that the owner named", key_item(dgk=fixed("another")), "FIELD_INVALID")
bad("key", "other-epoch", "PSS-23", "the epoch of another statement", key_item(epoch=8), "FIELD_INVALID")
bad("key", "other-gid", "PSS-24", "the group of another statement", key_item(gid=fixed("another", 16)), "FIELD_INVALID")
bad("key", "short", "PSS-24", "no statement behind it", key_item(body=b""), "CBOR_INVALID")
good("op", "first", "PSS-23", "a change, first of its run", first, {"n": "1", "epoch": 7, "gn": g1.hex(), "body": b"\x02hello".hex()})
good("op", "second", "PSS-23", "a snapshot behind it", second, {"n": "2", "epoch": 7, "gn": g2.hex(), "body": (b"\x01" + struct.pack(">Q", T * 1000)).hex()})
bad("op", "short", "PSS-23", "a head and a tag, no body", first[:188], "LENGTH")
good("ready", "none", "PSS-07", "no group", ready([]), [])
good("ready", "two", "PSS-07", "two runs", ready([GID + point(ANNA, 4), GID + point(BEN, 9)]), [{"gid": GID.hex(), **point_shown(ANNA, 4)}, {"gid": GID.hex(), **point_shown(BEN, 9)}])
bad("ready", "short", "PSS-07", "fewer than it says", ready([GID + point(ANNA, 4)], 2), "TRUNCATED")
bad("ready", "trailing", "PSS-07", "more than it says", ready([GID + point(ANNA, 4)], 0), "TRAILING_BYTES")
bad("ready", "zero", "PSS-07", "a run without an op", ready([GID + point(ANNA, 0)]), "RANGE")
good("vector", "empty", "PSS-07", "holds no group of this name", vector([], 0, 0), {"epoch": 0, "keys": 0, "runs": []})
good("vector", "one", "PSS-07", "one run, keys of epochs 7 and 5", vector([point(ANNA, 4)]), {"epoch": 7, "keys": 5, "runs": [point_shown(ANNA, 4)]})
bad("vector", "many", "PSS-07", "65 runs", vector([point(ANNA, 1)] * 65), "RANGE")
bad("vector", "short", "PSS-07", "fewer than it says", vector([], count=1), "TRUNCATED")
bad("vector", "type", "PSS-07", "a request", want(), "RANGE")
good("want", "whole", "PSS-07", "as many as can be asked for at once", want(), {"writer": ANNA.eid.hex(), "run": RUN.hex(), "from": "3", "count": 512})
bad("want", "many", "PSS-07", "513 ops", want(count=513), "RANGE")
bad("want", "none", "PSS-07", "no op", want(count=0), "RANGE")
bad("want", "zeroth", "PSS-07", "ops are numbered from 1", want(0), "RANGE")
bad("want", "trailing", "PSS-07", "a byte after it", want() + b"\0", "TRAILING_BYTES")
lines = ",\n".join("  " + json.dumps(v) for v in V)
(HERE / "group.json").write_text(f'{{"dgk": "{DGK.hex()}", "writer": "{ANNA.eid.hex()}", "vectors": [\n{lines}\n]}}\n')
