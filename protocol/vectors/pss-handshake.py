"""Makes pss-init, pss-neg, pss-ack, sfc-block and pss-handshake.json: the handshake of a session once more, from its
specification and in another language, so that the vectors do not inherit a mistake of the code they test.

    python3 protocol/vectors/pss-handshake.py     (Python >= 3.11, package `cryptography`)
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
SFC, RESUME, EXCLUSIVE, GROUP, RETRY, FIN_ACK = (1 << i for i in range(6))


def H(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def expand(prk, info, n):
    out, last, i = b"", b"", 1
    while len(out) < n:
        last = mac(prk, last, info, bytes([i]))
        out += last
        i += 1
    return out[:n]


def label(name):
    return b"rookery/v1/" + name.encode() + b"\0"


def pss(name):
    return label("pss-" + name)


def fixed(name, n=32):
    """Stands for randomness: bytes anyone can make again."""
    return H(b"vector/" + name.encode())[:n]


def raw(key):
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def u16(n):
    return struct.pack(">H", n)


def header(kind, flags, body, i_cookie, r_cookie=bytes(8), version=1):
    return struct.pack(">BBHI", version, kind, flags, body) + i_cookie + r_cookie


def sfc_block(version=1, site=0, scopes=0, ese=0, rate=0, payload=0, seconds=0, stored=0, tasks=0, region=0, reserved=0):
    return struct.pack(">BBHIIIIIHHI", version, site, scopes, ese, rate, payload, seconds, stored, tasks, region, reserved)


BLOCK = dict(site=2, scopes=0b0010111, ese=65536, rate=600, payload=262144, seconds=86400, stored=2097152, tasks=8, region=276)
BLOCK_DECODED = dict(site="cloud", scopes=23, eseBytesMax=65536, messagesPerMinuteMax=600, payloadBytesMax=262144, sessionSecondsMax=86400, storedBytesMax=2097152, concurrentTasksMax=8, region=276)


def init_fields(nonce, eph, target, resume, retry):
    return nonce + eph + target + resume + retry


def handshake(name, req, note, init_flags, neg_flags, block=None, resume=bytes(16), retry=False, e=0):
    seed_i, seed_r = fixed("seed-initiator"), fixed("seed-responder")
    sign_i, sign_r = Ed25519PrivateKey.from_private_bytes(seed_i), Ed25519PrivateKey.from_private_bytes(seed_r)
    eid_i, eid_r = raw(sign_i), raw(sign_r)
    peer_i, peer_r = b"\x00\x24\x08\x01\x12\x20" + fixed("peer-initiator"), b"\x00\x24\x08\x01\x12\x20" + fixed("peer-responder")
    multiaddr = bytes.fromhex("04c0000201910211d1cd03")  # /ip4/192.0.2.1/udp/4561/quic-v1
    addr = peer_i + peer_r + multiaddr
    k_e = fixed("period-secret")
    i_cookie, nonce, eph_secret = fixed(name + "/i-cookie", 8), fixed(name + "/nonce"), fixed(name + "/eph")
    eph_i = raw(X25519PrivateKey.from_private_bytes(eph_secret))
    target = H(pss("target"), eid_r, nonce)[:16]

    def init_with(retry_cookie):
        return header(0x08, init_flags, 232, i_cookie) + init_fields(nonce, eph_i, target, resume, retry_cookie) + bytes(120)

    first = init_with(bytes(16))
    out = {}
    retry_cookie = bytes(16)
    if retry:
        retry_cookie = mac(k_e, pss("retry"), struct.pack(">Q", e), addr, H(first))[:16]
        out["init"] = first
        out["retry"] = header(0x0A, RETRY, 18, i_cookie) + retry_cookie + u16(5)
        out["initAgain"] = init_with(retry_cookie)
    else:
        out["init"] = first
    init = init_with(retry_cookie)
    ctx = struct.pack(">Q", e) + u16(len(addr)) + addr + H(init)
    eph_r_secret = expand(mac(b"", k_e), pss("eph") + ctx, 32)
    eph_r_key = X25519PrivateKey.from_private_bytes(eph_r_secret)
    eph_r = raw(eph_r_key)
    sfc = sfc_block(**block) if block else bytes(32)
    r_cookie = mac(k_e, pss("cookie"), ctx, u16(neg_flags), sfc)[:8]
    neg_clear = header(0x0A, neg_flags, 176, i_cookie, r_cookie) + eph_r + sfc
    th1 = H(u16(len(peer_i)), peer_i, u16(len(peer_r)), peer_r, init, neg_clear)
    dh = eph_r_key.exchange(X25519PublicKey.from_public_bytes(eph_i))
    prk = mac(pss("extract"), dh)
    k_neg = expand(prk, pss("neg") + th1, 32)
    sig_r = sign_r.sign(pss("sig-neg") + th1 + eid_r)
    neg = neg_clear + AESGCM(k_neg).encrypt(bytes(12), eid_r + sig_r, b"")
    ack_clear = header(0x09, neg_flags, 260, i_cookie, r_cookie) + init_fields(nonce, eph_i, target, resume, retry_cookie)
    ack_clear += u16(init_flags) + u16(neg_flags) + sfc
    th2 = H(th1, eid_r, ack_clear)
    k_ack = expand(prk, pss("ack") + th2, 32)
    sig_i = sign_i.sign(pss("sig-ack") + th2 + eid_i + eid_r)
    ack_sealed = AESGCM(k_ack).encrypt(bytes(12), eid_i + sig_i, b"")
    ack = ack_clear + ack_sealed
    th3 = H(th2, ack_sealed)
    keys = {
        x: expand(prk, pss(x) + th3, 12 if x.endswith("iv") else 32)
        for x in ("i2r-key", "i2r-iv", "i2r-chain", "r2i-key", "r2i-iv", "r2i-chain", "export")
    }
    sid = resume if init_flags & RESUME else H(label("session"), th3)[:16]
    assert (len(init), len(neg), len(ack)) == (256, 200, 284)
    out |= {"neg": neg, "ack": ack}
    return {
        "id": name,
        "req": req,
        "note": note,
        "inputs": {
            "seedInitiator": seed_i.hex(),
            "seedResponder": seed_r.hex(),
            "peerInitiator": peer_i.hex(),
            "peerResponder": peer_r.hex(),
            "remoteAddr": multiaddr.hex(),
            "periodSecret": k_e.hex(),
            "e": e,
            "iCookie": i_cookie.hex(),
            "nonceI": nonce.hex(),
            "ephSecretI": eph_secret.hex(),
            "initFlags": init_flags,
            "resumeId": resume.hex(),
            "grantsGroup": bool(neg_flags & GROUP),
            "offer": BLOCK_DECODED if block else None,
            "retryWaitSeconds": 5 if retry else None,
        },
        "frames": {k: v.hex() for k, v in out.items()},
        "intermediates": {
            "eidInitiator": eid_i.hex(),
            "eidResponder": eid_r.hex(),
            "ephI": eph_i.hex(),
            "target": target.hex(),
            "retryCookie": retry_cookie.hex(),
            "ctx": ctx.hex(),
            "ephSecretR": eph_r_secret.hex(),
            "ephR": eph_r.hex(),
            "rCookie": r_cookie.hex(),
            "negFlags": neg_flags,
            "th1": th1.hex(),
            "dh": dh.hex(),
            "prk": prk.hex(),
            "kNeg": k_neg.hex(),
            "sigR": sig_r.hex(),
            "th2": th2.hex(),
            "kAck": k_ack.hex(),
            "sigI": sig_i.hex(),
            "th3": th3.hex(),
        },
        "session": {"sid": sid.hex(), "keys": {k: v.hex() for k, v in keys.items()}},
    }


HANDSHAKES = [
    handshake("pss-handshake-plain", ["PSS-09", "D-02"], "no flags, three frames", 0, 0),
    handshake("pss-handshake-sfc", ["SFC-03", "SFC-05"], "a contract offered and ratified", SFC, SFC, BLOCK),
    handshake("pss-handshake-sfc-withheld", ["G-44"], "a contract asked for, a plain session offered", SFC, 0),
    handshake("pss-handshake-retry", ["PSS-14"], "a busy responder asks to come back in 5 s, period 1", 0, 0, retry=True, e=1),
    handshake("pss-handshake-retry-sfc", ["PSS-14", "SFC-03"], "RETRY, then a contract, own ESE pair, group", SFC | EXCLUSIVE | GROUP, SFC | EXCLUSIVE | GROUP, BLOCK, retry=True),
    handshake("pss-handshake-resume", ["PSS-07"], "takes an old session up: its id stays; an unknown flag of INIT (bit 9) is ignored", RESUME | (1 << 9), RESUME, resume=fixed("resume", 16)),
]
BY_ID = {h["id"]: h for h in HANDSHAKES}


def changed(frame, at, new):
    frame = bytearray.fromhex(frame)
    frame[at : at + len(new)] = new
    return bytes(frame).hex()


def good(id, req, note, hex_, decoded):
    return {"id": id, "req": req, "note": note, "hex": hex_, "decoded": decoded}


def bad(id, req, note, hex_, error, field=None):
    return {"id": id, "req": req, "note": note, "hex": hex_, "error": error} | ({"field": field} if field else {})


def common(kind, req, frame, wrong_length):
    """Refusals that all three frames share."""
    return [
        bad(f"{kind}-empty", req, "no byte at all", "", "TRUNCATED"),
        bad(f"{kind}-header-cut", req, "23 bytes", frame[:46], "TRUNCATED"),
        bad(f"{kind}-cut", req, "the last byte is missing", frame[:-2], "TRUNCATED"),
        bad(f"{kind}-trailing", req, "one byte too many", frame + "00", "TRAILING_BYTES"),
        bad(f"{kind}-version", req, "version 2", changed(frame, 0, b"\x02"), "FRAME_VERSION", "version"),
        bad(f"{kind}-type-unknown", req, "type 0x13 of another draft", changed(frame, 1, b"\x13"), "FRAME_TYPE", "type"),
        bad(f"{kind}-length", req, "announces a body one byte longer", changed(frame, 4, struct.pack(">I", wrong_length)), "FRAME_LENGTH", "length"),
        bad(f"{kind}-flag-6", req, "critical unknown bit 6", changed(frame, 3, bytes([bytes.fromhex(frame)[3] | 0x40])), "FRAME_FLAGS", "flags"),
        bad(f"{kind}-flag-7", req, "critical unknown bit 7", changed(frame, 3, bytes([bytes.fromhex(frame)[3] | 0x80])), "FRAME_FLAGS", "flags"),
        bad(f"{kind}-flag-15", req, "critical unknown bit 15", changed(frame, 2, b"\x80"), "FRAME_FLAGS", "flags"),
        bad(f"{kind}-fin-ack", req, "FIN-ACK in a handshake", changed(frame, 3, bytes([bytes.fromhex(frame)[3] | 0x20])), "FRAME_FLAGS", "flags"),
    ]


def init_vectors():
    plain, sfc, retry, resume = (BY_ID["pss-handshake-" + x] for x in ("plain", "sfc", "retry", "resume"))

    def decoded(h, flags):
        i, m = h["inputs"], h["intermediates"]
        return {"flags": flags, "iCookie": i["iCookie"], "nonceI": i["nonceI"], "ephI": m["ephI"], "target": m["target"], "resumeId": i["resumeId"], "retryCookie": m["retryCookie"]}

    f = plain["frames"]["init"]
    return [
        good("pss-init-plain", ["PSS-08", "PSS-13", "G-38"], "no flags", f, decoded(plain, 0)),
        good("pss-init-sfc", ["SFC-04"], "bit 0 asks for a contract", sfc["frames"]["init"], decoded(sfc, SFC)),
        good("pss-init-retried", ["PSS-14"], "the repetition after a RETRY carries its cookie", retry["frames"]["initAgain"], decoded(retry, 0)),
        good("pss-init-resume", ["PSS-07"], "RESUME with an id; bit 9 is unknown and ignored", resume["frames"]["init"], decoded(resume, RESUME | (1 << 9))),
        *common("pss-init", ["PSS-11"], f, 233),
        bad("pss-init-type-neg", ["G-40"], "another type than its length says", changed(f, 1, b"\x0a"), "FRAME_LENGTH", "length"),
        bad("pss-init-retry-flag", ["PSS-11"], "RETRY is NEG's", changed(f, 3, b"\x10"), "FRAME_FLAGS", "flags"),
        bad("pss-init-r-cookie", ["PSS-11"], "an R-cookie before there is one", changed(f, 23, b"\x01"), "FRAME_ZEROS", "rCookie"),
        bad("pss-init-zeros", ["PSS-11"], "the last padding byte is set", changed(f, 255, b"\x01"), "FRAME_ZEROS", "zeros"),
        bad("pss-init-resume-without-id", ["PSS-11"], "RESUME, but no id", changed(f, 3, b"\x02"), "FIELD_INVALID", "resumeId"),
        bad("pss-init-id-without-resume", ["PSS-11"], "an id, but no RESUME", changed(f, 104, b"\x01"), "FIELD_INVALID", "resumeId"),
    ]


def neg_vectors():
    plain, sfc, retry = (BY_ID["pss-handshake-" + x] for x in ("plain", "sfc", "retry"))

    def decoded(h, block):
        m = h["intermediates"]
        out = {"kind": "neg", "flags": m["negFlags"], "iCookie": h["inputs"]["iCookie"], "rCookie": m["rCookie"], "ephR": m["ephR"], "sealed": h["frames"]["neg"][-224:]}
        return out | ({"sfc": block} if block else {})

    f, s, r = plain["frames"]["neg"], sfc["frames"]["neg"], retry["frames"]["retry"]
    return [
        good("pss-neg-plain", ["PSS-09", "PSS-15"], "no flags, no block", f, decoded(plain, None)),
        good("pss-neg-sfc", ["SFC-05"], "a 32-byte block under bit 0", s, decoded(sfc, BLOCK_DECODED)),
        good("pss-neg-retry", ["PSS-14", "G-44"], "come back in 5 s", r, {"kind": "retry", "iCookie": retry["inputs"]["iCookie"], "retryCookie": retry["intermediates"]["retryCookie"], "waitSeconds": 5}),
        *common("pss-neg", ["PSS-11"], f, 177),
        bad("pss-neg-block-without-flag", ["SFC-05"], "a block that nobody announced", changed(s, 3, b"\x00"), "FRAME_ZEROS", "sfc"),
        bad("pss-neg-flag-without-block", ["SFC-05"], "bit 0 and a block of zeros", changed(f, 3, b"\x01"), "FIELD_INVALID", "sfc.version"),
        bad("pss-neg-retry-and-sfc", ["PSS-11"], "RETRY beside another flag", changed(r, 3, b"\x11"), "FRAME_FLAGS", "flags"),
        bad("pss-neg-retry-r-cookie", ["PSS-11"], "RETRY with an R-cookie", changed(r, 16, b"\x01"), "FRAME_ZEROS", "rCookie"),
        bad("pss-neg-retry-cookie-zero", ["PSS-11"], "RETRY without its cookie", changed(r, 24, bytes(16)), "FIELD_INVALID", "retryCookie"),
        bad("pss-neg-retry-wait", ["PSS-14"], "31 s", changed(r, 40, u16(31)), "RANGE", "waitSeconds"),
        bad("pss-neg-retry-long", ["PSS-11"], "RETRY with an ordinary body", changed(f, 3, b"\x10"), "FRAME_LENGTH", "length"),
    ]


def ack_vectors():
    plain, sfc, retry, resume = (BY_ID["pss-handshake-" + x] for x in ("plain", "sfc", "retry", "resume"))

    def decoded(h, block=None):
        i, m = h["inputs"], h["intermediates"]
        out = {
            "init": {"flags": i["initFlags"], "iCookie": i["iCookie"], "nonceI": i["nonceI"], "ephI": m["ephI"], "target": m["target"], "resumeId": i["resumeId"], "retryCookie": m["retryCookie"]},
            "flags": m["negFlags"],
            "iCookie": i["iCookie"],
            "rCookie": m["rCookie"],
            "sealed": h["frames"]["ack"][-224:],
        }
        return out | ({"sfc": block} if block else {})

    f, s = plain["frames"]["ack"], sfc["frames"]["ack"]
    return [
        good("pss-ack-plain", ["PSS-09", "G-38"], "both cookies echoed", f, decoded(plain)),
        good("pss-ack-sfc", ["SFC-07"], "the block repeated ratifies it", s, decoded(sfc, BLOCK_DECODED)),
        good("pss-ack-retried", ["PSS-14"], "after a RETRY", retry["frames"]["ack"], decoded(retry)),
        good("pss-ack-resume", ["PSS-07"], "RESUME; INIT's unknown bit 9 is said again", resume["frames"]["ack"], decoded(resume)),
        *common("pss-ack", ["PSS-11"], f, 261),
        bad("pss-ack-header-flags", ["D-11"], "the header does not repeat NEG's flags", changed(s, 3, b"\x00"), "FRAME_FLAGS", "flags"),
        bad("pss-ack-exceeds-init", ["D-11"], "NEG's flags exceed INIT's", changed(changed(f, 3, b"\x04"), 139, b"\x04"), "FRAME_FLAGS", "flags"),
        bad("pss-ack-init-flags", ["PSS-11"], "INIT's copy sets RETRY", changed(f, 137, b"\x10"), "FRAME_FLAGS", "flags"),
        bad("pss-ack-resume-id", ["PSS-11"], "an id without RESUME", changed(f, 104, b"\x01"), "FIELD_INVALID", "resumeId"),
        bad("pss-ack-block-without-flag", ["SFC-07"], "a block without bit 0", changed(f, 140, b"\x01"), "FRAME_ZEROS", "sfc"),
        bad("pss-ack-block-version", ["SFC-06"], "a block of version 2", changed(s, 140, b"\x02"), "FIELD_INVALID", "sfc.version"),
    ]


def sfc_vectors():
    zero = dict(site="any", scopes=0, eseBytesMax=0, messagesPerMinuteMax=0, payloadBytesMax=0, sessionSecondsMax=0, storedBytesMax=0, concurrentTasksMax=0, region=0)
    m = 2**32 - 1
    full = sfc_block(site=3, scopes=0x7F, ese=m, rate=m, payload=m, seconds=m, stored=m, tasks=0xFFFF, region=0xFFFF)
    r = ["SFC-06"]
    out = [
        good("sfc-zero", r, "zero means none of it", sfc_block().hex(), zero),
        good("sfc-usual", r, "every field its own value", sfc_block(**BLOCK).hex(), BLOCK_DECODED),
        good("sfc-full", r, "every field at its end", full.hex(), dict(site="device", scopes=127, eseBytesMax=m, messagesPerMinuteMax=m, payloadBytesMax=m, sessionSecondsMax=m, storedBytesMax=m, concurrentTasksMax=65535, region=65535)),
        good("sfc-edge", r, "site 1", sfc_block(site=1).hex(), zero | {"site": "edge"}),
    ]
    names = ["read ESE", "write ESE", "send messages", "create tasks", "stream", "mailbox", "relay"]
    out += [good(f"sfc-scope-{i}", r, f"scope bit {i}: {n}", sfc_block(scopes=1 << i).hex(), zero | {"scopes": 1 << i}) for i, n in enumerate(names)]
    out += [bad(f"sfc-scope-{i}", r, "an unknown scope", sfc_block(scopes=1 << i).hex(), "FIELD_INVALID", "sfc.scopes") for i in range(7, 16)]
    out += [
        bad("sfc-version-0", r, "32 zeros are no block", bytes(32).hex(), "FIELD_INVALID", "sfc.version"),
        bad("sfc-version-2", r, "another version", sfc_block(version=2).hex(), "FIELD_INVALID", "sfc.version"),
        bad("sfc-site-4", r, "an unknown site", sfc_block(site=4).hex(), "FIELD_INVALID", "sfc.site"),
        bad("sfc-reserved", r, "a reserved bit", sfc_block(reserved=1).hex(), "FIELD_INVALID", "sfc.reserved"),
        bad("sfc-short", r, "31 bytes", sfc_block().hex()[:-2], "LENGTH", "sfc"),
        bad("sfc-long", r, "33 bytes", sfc_block().hex() + "00", "LENGTH", "sfc"),
        bad("sfc-empty", r, "no byte", "", "LENGTH", "sfc"),
    ]
    return out


for name, vectors in {
    "pss-init": init_vectors(),
    "pss-neg": neg_vectors(),
    "pss-ack": ack_vectors(),
    "sfc-block": sfc_vectors(),
    "pss-handshake": HANDSHAKES,
}.items():
    (HERE / f"{name}.json").write_text(json.dumps(vectors, indent=2) + "\n")
