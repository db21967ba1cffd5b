"""Makes work.json, discovery-req.json, discovery-res.json and discovery-item.json: anonymous discovery once more, from its specification and
in another language, so that the vectors do not inherit a mistake of the code they test.

    python3 protocol/vectors/discovery.py     (Python >= 3.11, package `cryptography`)
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


def zero_bits(digest):
    value = int.from_bytes(digest, "big")
    return 256 - value.bit_length()


def work(seed, bits, start=0):
    """The first nonce from `start` on whose try has at least `bits` leading zero bits."""
    nonce = start
    while zero_bits(H(seed, struct.pack(">Q", nonce))) < bits:
        nonce += 1
    return struct.pack(">Q", nonce)


def write(name, rows):
    (HERE / f"{name}.json").write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")


def work_row(id, note, seed, nonce, **more):
    return {"id": id, "req": ["AD-02"], "note": note, **more, "seed": seed.hex(), "nonce": nonce.hex(), "bits": zero_bits(H(seed, nonce))}


rows = []
for bits, start in ((0, 1), (1, 7), (8, 0), (12, 2**32 - 3), (16, 0), (16, 2**53 + 1), (18, 0)):
    seed = fixed(f"work-{bits}-{start}")
    rows.append(work_row(f"work-{bits}-{start}", f"the first nonce from {start} on with at least {bits} bits", seed, work(seed, bits, start)))
key, record = fixed("put-key"), fixed("put-record", 32) * 5
seed = H(label("put-pow"), key, H(record))
rows.append(work_row("work-put", "the seed of a registrar's PUT", seed, work(seed, 12), key=key.hex(), record=record.hex()))
write("work", rows)

NOW = 1_800_000_000_000
DSID = H(b"ds:org.agentnet:marketplace.energy:1")
SECRET = fixed("discovery ephemeral")
EPHEMERAL = raw(X25519PrivateKey.from_private_bytes(SECRET))


def header(criteria, flags=3, difficulty=16, hops=3, fan_out=6, target=DSID, ts=NOW, version=1, kind=1, length=None, nonce=bytes(8), claimed=None):
    length = len(criteria) if length is None else length
    fixed_part = struct.pack(">BBBBBBH", version, kind, flags, difficulty if claimed is None else claimed, hops, fan_out, length)
    return fixed_part + target + EPHEMERAL + struct.pack(">Q", ts) + H(criteria) + nonce


def seed_of(frame):
    return H(label("pow"), frame[:4] + b"\0" + frame[5:112])


def solved(criteria, bits=16, **given):
    frame = header(criteria, **given)
    return frame[:112] + work(seed_of(frame), bits)


def request(id, note, frame, criteria, judged, wanted=None, now=NOW, difficulty=16):
    """judged: what becomes of it at a receiver whose clock shows `now` and who asks for `difficulty`."""
    row = {"id": id, "req": ["AD-02", "DS-16"], "note": note, "nowMs": now, "difficulty": difficulty, "hex": frame.hex(), "criteria": criteria.hex(), "judged": judged}
    if judged == "sound":
        version, kind, flags, claimed, hops, fan_out, length = struct.unpack(">BBBBBBH", frame[:8])
        row["seed"] = seed_of(frame).hex()
        row["decoded"] = {
            "records": bool(flags & 1), "contact": bool(flags & 2), "difficulty": claimed, "hops": hops, "fanOut": fan_out, "criteriaBytes": length,
            "target": frame[8:40].hex(), "ephemeral": frame[40:72].hex(), "timestampMs": struct.unpack(">Q", frame[72:80])[0],
            "criteriaHash": frame[80:112].hex(), "nonce": frame[112:].hex(),
        }
        row["wanted"] = wanted
    return row


ANY = cbor({})
WANTED = {"tags": ["de-by", "solar"], "mode": "always_on", "minReputation": 50}
SOME = cbor(WANTED)
base = solved(SOME)
last = struct.pack(">Q", int.from_bytes(base[112:], "big") - 1)
rows = [
    request("request", "records and contact, with criteria", base, SOME, "sound", WANTED),
    request("request-any", "no criteria: the empty map", solved(ANY), ANY, "sound", {}),
    request("request-hops-0", "hops lie outside the work", base[:4] + b"\0" + base[5:], SOME, "sound", WANTED),
    request("request-records", "records alone, the widest fan-out", solved(ANY, flags=1, fan_out=16), ANY, "sound", {}),
    request("request-contact", "contact alone, fan-out 1", solved(ANY, flags=2, fan_out=1), ANY, "sound", {}),
    request("request-18", "work of 18 bits where 17 are asked", solved(ANY, bits=18, difficulty=18), ANY, "sound", {}, difficulty=17),
    request("request-early", "as far ahead of the clock as is allowed", base, SOME, "sound", WANTED, now=NOW - 120_000),
    request("request-old", "as old as is allowed", base, SOME, "sound", WANTED, now=NOW + 120_000),
    request("too-early", "a millisecond further ahead", base, SOME, "clock", now=NOW - 120_001),
    request("too-old", "a millisecond older", base, SOME, "clock", now=NOW + 120_001),
    request("time-far", "a time beyond all clocks", header(ANY, ts=2**64 - 1), ANY, "clock"),
    request("asked-17", "16 bits where 17 are asked", base, SOME, "work", difficulty=17),
    request("no-work", "the try before the one that has the work", base[:112] + last, SOME, "work"),
    request("claims-more", "claims 24 bits and has 16", solved(ANY, claimed=24), ANY, "work"),
    request("target-changed", "the same nonce for another target", base[:8] + fixed("other target") + base[40:], SOME, "work"),
    request("version-2", "another version", header(ANY, version=2), ANY, "FRAME_VERSION"),
    request("type-2", "a response's type", header(ANY, kind=2), ANY, "FRAME_TYPE"),
    request("flags-0", "nothing is wanted", header(ANY, flags=0), ANY, "FRAME_FLAGS"),
    request("flags-4", "a flag that nobody defined", header(ANY, flags=5), ANY, "FRAME_FLAGS"),
    request("claims-15", "claims less than anyone asks", header(ANY, claimed=15), ANY, "RANGE"),
    request("claims-33", "claims more than anyone asks", header(ANY, claimed=33), ANY, "RANGE"),
    request("hops-4", "more hops than there are", header(ANY, hops=4), ANY, "RANGE"),
    request("fan-out-0", "to nobody", header(ANY, fan_out=0), ANY, "RANGE"),
    request("fan-out-17", "to too many", header(ANY, fan_out=17), ANY, "RANGE"),
    request("criteria-0", "no criteria at all", header(ANY, length=0), ANY, "LENGTH"),
    request("criteria-513", "criteria that are too long", header(ANY, length=513), ANY, "LENGTH"),
]
write("discovery-req", rows)


def response(id, note, frame, decoded=None, error=None):
    return {"id": id, "req": ["AD-02"], "note": note, "hex": frame.hex(), **({"decoded": decoded} if error is None else {"error": error})}


rows = [
    response("res-1", "one item follows", b"\x01\x02\x00\x01", {"type": "res", "count": 1}),
    response("res-32", "as many as one hop passes back", b"\x01\x02\x00\x20", {"type": "res", "count": 32}),
    response("rej-work", "18 bits are asked for", b"\x01\xf0\x12\x01", {"type": "rej", "difficulty": 18, "reason": "work"}),
    response("rej-clock", "the time is out of the window", b"\x01\xf0\x10\x02", {"type": "rej", "difficulty": 16, "reason": "clock"}),
    response("rej-full", "there is no room", b"\x01\xf0\x20\x03", {"type": "rej", "difficulty": 32, "reason": "full"}),
    response("res-0", "no items", b"\x01\x02\x00\x00", error="RANGE"),
    response("res-33", "too many items", b"\x01\x02\x00\x21", error="RANGE"),
    response("rej-15", "less than anyone asks", b"\x01\xf0\x0f\x01", error="RANGE"),
    response("rej-33", "more than anyone asks", b"\x01\xf0\x21\x01", error="RANGE"),
    response("rej-reason", "a reason that nobody defined", b"\x01\xf0\x10\x04", error="RANGE"),
    response("type-3", "the draft's next type is not ours", b"\x01\x03\x10\x01", error="FRAME_TYPE"),
    response("version-2", "another version", b"\x02\x02\x00\x01", error="FRAME_VERSION"),
    response("short", "cut", b"\x01\x02\x00", error="TRUNCATED"),
]
write("discovery-res", rows)

SEED = seed_of(base)
OTHER_SEED = seed_of(solved(ANY))
MEMBER, OTHER, CURATOR = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (2, 3, 1))
TS = NOW // 1_000


def record(kind, signer, payload):
    payload = cbor(payload)
    return cbor([kind, payload, signer.sign(label(f"record/{kind}") + payload)])


def join(signer=MEMBER, dsid=DSID, **other):
    payload = {"v": 1, "dsid": dsid, "eid": raw(signer), "curator": raw(CURATOR), "tags": ["solar", "de-by"], "mode": "always_on", "seq": NOW, "ts": TS, "exp": TS + 3_600}
    return record("join", signer, payload | other)


def locator(signer=MEMBER):
    peer = "12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp"
    mbox = raw(X25519PrivateKey.from_private_bytes(bytes([9]) * 32))
    payload = {"v": 1, "eid": raw(signer), "peer": peer, "addrs": ["/ip4/192.0.2.1/udp/4709/quic-v1"], "mbox": mbox, "mode": "always_on", "keepers": [], "gen": NOW, "ts": TS, "exp": TS + 86_400}
    return record("locator", signer, payload)


def member(signer=MEMBER, seed=SEED, **records):
    return cbor({"eid": raw(signer), "sig": signer.sign(label("discovery-sig") + seed)} | records)


def plain(content):
    return struct.pack(">H", len(content)) + content + bytes(3_022 - len(content))


def item(id, note, plaintext, seed=SEED, target=DSID, error=None, answer=None, recipient=EPHEMERAL):
    enc, ct = hpke_seal(recipient, fixed("item " + id), label("discovery-res") + seed, b"", plaintext)
    row = {
        "id": id, "req": ["AD-05", "DS-17"], "note": note, "nowMs": NOW, "secret": SECRET.hex(), "ephemeral": fixed("item " + id).hex(),
        "seed": SEED.hex(), "target": target.hex(), "hex": (enc + ct).hex(),
    }
    return row | ({"error": error} if error else {"plaintext": plaintext.hex(), "answer": answer})


def told(kind, signer=MEMBER, join=False, gp=False, locator=False):
    return {"kind": kind, "eid": raw(signer).hex(), "join": join, "gp": gp, "locator": locator}


COORD = H(raw(MEMBER), b"printer")
point = record("gp", MEMBER, {"v": 1, "eid": raw(MEMBER), "tag": "printer", "access": "grant", "gen": NOW, "ts": TS, "exp": TS + 3_600})
SHARD = H(DSID, bytes([H(raw(MEMBER))[0] % 4]))
whole = member(join=join(), locator=locator())
rows = [
    item("member", "who answers, its join and its locator", plain(whole), answer=told("member", join=True, locator=True)),
    item("member-unlisted", "a member that no registrar lists", plain(member()), answer=told("member")),
    item("member-shard", "asked for by one part of the space", plain(member(join=join())), target=SHARD, answer=told("member", join=True)),
    item("registrar", "a public record", plain(cbor({"join": join()})), answer=told("record", join=True)),
    item("point", "the owner of a point", plain(member(gp=point)), target=COORD, answer=told("member", gp=True)),
    item("point-record", "the point's record, from a registrar", plain(cbor({"gp": point})), target=COORD, answer=told("record", gp=True)),
    item("other-key", "sealed to another request's key", plain(whole), recipient=raw(X25519PrivateKey.from_private_bytes(fixed("other key"))), error="AEAD_OPEN"),
    item("other-seed", "sealed for another request", plain(whole), seed=OTHER_SEED, error="AEAD_OPEN"),
    item("moved", "the signature is for another request", plain(member(seed=OTHER_SEED)), error="SIGNATURE_INVALID"),
    item("not-zero", "something behind the content", plain(whole)[:-1] + b"\1", error="FRAME_ZEROS"),
    item("too-long", "a length beyond the item", b"\xff\xff" + plain(whole)[2:], error="TRUNCATED"),
    item("nobody", "names nobody", plain(cbor({})), error="FIELD_MISSING"),
    item("signature-missing", "an EID without its signature", plain(cbor({"eid": raw(MEMBER)})), error="FIELD_MISSING"),
    item("locator-alone", "a registrar has no locators to tell", plain(cbor({"join": join(), "locator": locator()})), error="FIELD_MISSING"),
    item("both", "a join and a point", plain(member(join=join(), gp=point)), error="FIELD_UNKNOWN"),
    item("another-member", "with the join of another", plain(member(join=join(OTHER))), error="EID_MISMATCH"),
    item("another-locator", "with the locator of another", plain(member(locator=locator(OTHER))), error="EID_MISMATCH"),
    item("another-space", "with a join of another space", plain(cbor({"join": join(dsid=fixed("other space"))})), error="RECORD_KEY_MISMATCH"),
    item("expired", "with a join that has run out", plain(cbor({"join": join(ts=TS - 3_600, exp=TS, seq=NOW - 3_600_000)})), error="RECORD_EXPIRED"),
    item("gone", "with a join that was taken back", plain(cbor({"join": join(gone=True)})), error="RECORD_EXPIRED"),
    item("unknown-member", "with a member that nobody defined", plain(cbor({"join": join(), "x": 1})), error="FIELD_UNKNOWN"),
]
write("discovery-item", rows)
