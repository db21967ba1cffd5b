"""Makes pss-resume.json and pss-snapshot.json: what a READY asks of the side that receives it, and the parts of a snapshot, once more from the
specification and in another language, so that the vectors do not inherit a mistake of the code they test.

    python3 protocol/vectors/pss-resume.py
"""
import hashlib
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
H0, RX_HASH, OTHER = b"\x13" * 32, b"\x23" * 32, b"\x77" * 32
A2A, MAILBOX, SNAPSHOT = 2, 3, 6


def H(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def chain(transactions, seq=0, h=H0, heads=None):
    """[(number, prev, digest, hash after, channel)] of (channel, kind, payload)."""
    heads = dict(heads or {})
    out = []
    for channel, kind, payload in transactions:
        seq += 1
        prev, d_prev = heads.get(channel, (0, bytes(32)))
        d = H(b"rookery/v1/tx\0", d_prev, struct.pack(">QQBH", seq, prev, kind, channel), payload)
        h = H(h, d)
        heads[channel] = (seq, d)
        out.append((seq, prev, d, h, channel))
    return out


SENT = [(1, A2A, b"one"), (2, MAILBOX, b"two"), (1, A2A, b"three"), (2, MAILBOX, b""), (1, A2A, b"five"), (300, A2A, b"six" * 40)]
CHAIN = chain(SENT)
HASH = {0: H0, **{row[0]: row[3] for row in CHAIN}}
DIGEST = {row[0]: row[2] for row in CHAIN}


def ready(rx, rx_hash, tx=0, tx_hash=RX_HASH, flags=0, heads=()):
    out = struct.pack(">Q", rx) + rx_hash + struct.pack(">Q", tx) + tx_hash + bytes([flags, len(heads)])
    for channel, number, digest in heads:
        out += struct.pack(">HQ", channel, number) + digest
    return out


def row(id, note, payload, decoded, acked=0, held=(0, RX_HASH, ())):
    seq, h, heads = held
    return {
        "id": id,
        "req": ["PSS-07"],
        "note": note,
        "given": {
            "h0": H0.hex(),
            "sent": [{"channel": c, "kind": k, "payload": p.hex()} for c, k, p in SENT],
            "acked": str(acked),
            "held": {"seq": str(seq), "hash": h.hex(), "heads": [{"channel": c, "number": str(n), "digest": d.hex()} for c, n, d in heads]},
        },
        "hex": payload.hex(),
        "decoded": decoded,
    }


def resend(*numbers):
    return {"verdict": "resend", "numbers": [str(n) for n in numbers], "prev": [str(CHAIN[n - 1][1]) for n in numbers]}


def diverged(field):
    return {"verdict": "diverged", "field": field}


rows = [
    row("resume-none-missing", "the peer has all six", ready(6, HASH[6]), resend()),
    row("resume-all-missing", "the peer has nothing; its hash is h_0", ready(0, H0), resend(1, 2, 3, 4, 5, 6)),
    row("resume-run", "the peer's run ends at 3", ready(3, HASH[3]), resend(4, 5, 6)),
    row("resume-head-ahead", "run 1, and channel 1 came through to 5", ready(1, HASH[1], heads=[(1, 5, DIGEST[5])]), resend(2, 4, 6)),
    row("resume-two-heads", "run 0, heads of two channels ahead of it", ready(0, H0, heads=[(2, 4, DIGEST[4]), (300, 6, DIGEST[6])]), resend(1, 3, 5)),
    row("resume-at-base", "what was acknowledged is dropped, and the peer stands there", ready(4, HASH[4]), resend(5, 6), acked=4),
    row("resume-ese-lost", "the flag changes nothing of what is sent again", ready(5, HASH[5], flags=1), resend(6)),
    row("resume-before-base", "the peer's disk is an older one", ready(2, HASH[2]), {"verdict": "snapshot"}, acked=4),
    row("resume-before-base-hash", "below the base a hash cannot be judged", ready(2, OTHER), {"verdict": "snapshot"}, acked=4),
    row("diverged-rx-seq", "the peer has a seventh, which was never sent", ready(7, OTHER), diverged("rxSeq")),
    row("diverged-rx-hash", "the same number, another chain", ready(3, OTHER), diverged("rxHash")),
    row("diverged-rx-hash-base", "at the base the chain is still known", ready(4, OTHER), diverged("rxHash"), acked=4),
    row("diverged-head-digest", "a head with another digest", ready(1, HASH[1], heads=[(1, 5, OTHER)]), diverged("heads")),
    row("diverged-head-channel", "5 was sent on channel 1, not on 2", ready(1, HASH[1], heads=[(2, 5, DIGEST[5])]), diverged("heads")),
    row("diverged-head-beyond", "a head beyond all that was sent", ready(1, HASH[1], heads=[(1, 9, OTHER)]), diverged("heads")),
    row("diverged-tx-seq", "the peer sent fewer than this side holds of it", ready(6, HASH[6], tx=4), diverged("txSeq"), held=(5, RX_HASH, ())),
    row("diverged-tx-seq-head", "… or than a head that this side holds", ready(6, HASH[6], tx=6), diverged("txSeq"), held=(5, RX_HASH, ((3, 7, OTHER),))),
    row("diverged-tx-hash", "the same number of the peer's, another chain", ready(6, HASH[6], tx=5, tx_hash=OTHER), diverged("txHash"), held=(5, RX_HASH, ())),
    row("resume-peer-ahead", "the peer sent more than arrived: it sends the rest", ready(6, HASH[6], tx=9, tx_hash=OTHER), resend(), held=(5, RX_HASH, ())),
]
(HERE / "pss-resume.json").write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")


def part(index, count, base, h, heads, data):
    out = struct.pack(">HHQ", index, count, base) + h + bytes([len(heads)])
    for channel, number, digest in heads:
        out += struct.pack(">HQ", channel, number) + digest
    return out + data


def snapshot(id, note, payload, decoded=None, error=None):
    return {"id": id, "req": ["PSS-07"], "note": note, "hex": payload.hex(), **({"decoded": decoded} if error is None else {"error": error})}


def fields(index, count, base, h, heads, data):
    named = [{"channel": c, "number": str(n), "digest": d.hex()} for c, n, d in heads]
    return {"index": index, "count": count, "base": str(base), "hash": h.hex(), "heads": named, "bytes": data.hex()}


BASE_HEADS = [(1, 3, DIGEST[3]), (2, 4, DIGEST[4])]
whole = (0, 1, 4, HASH[4], BASE_HEADS, b"state")
empty = (0, 1, 4, HASH[4], [], b"")
second = (1, 2, 2**53 + 1, HASH[4], [(65535, 2**53 + 1, OTHER)], b"\x00\xff")
parts = [
    snapshot("snapshot-whole", "one part, two heads", part(*whole), fields(*whole)),
    snapshot("snapshot-empty", "no channel was used and there is no state", part(*empty), fields(*empty)),
    snapshot("snapshot-second", "the second of two; numbers beyond 53 bits", part(*second), fields(*second)),
    snapshot("snapshot-index", "part 1 of 1", part(1, 1, 4, HASH[4], [], b""), error="RANGE"),
    snapshot("snapshot-none", "part 0 of 0", part(0, 0, 4, HASH[4], [], b""), error="RANGE"),
    snapshot("snapshot-many", "65 parts are more than a snapshot has", part(0, 65, 4, HASH[4], [], b""), error="TOO_LARGE"),
    snapshot("snapshot-head-beyond", "a head beyond the base", part(0, 1, 4, HASH[4], [(1, 5, OTHER)], b""), error="RANGE"),
    snapshot("snapshot-head-zero", "a head without a transaction", part(0, 1, 4, HASH[4], [(1, 0, OTHER)], b""), error="RANGE"),
    snapshot("snapshot-heads-order", "channels that do not rise", part(0, 1, 4, HASH[4], BASE_HEADS[::-1], b""), error="RANGE"),
    snapshot("snapshot-channels", "65 channels", part(0, 1, 99, HASH[4], [(c, 1, OTHER) for c in range(65)], b""), error="RANGE"),
    snapshot("snapshot-short", "cut within a head", part(0, 1, 4, HASH[4], BASE_HEADS, b"")[:-1], error="TRUNCATED"),
]
# the chain goes on behind a snapshot: its part is number base + 1, on channel 0, and what was unacknowledged follows under new numbers
first = part(0, 1, 4, HASH[4], BASE_HEADS, b"state")
after = chain([(0, SNAPSHOT, first), (1, A2A, b"five"), (300, A2A, b"six" * 40)], 4, HASH[4], {c: (n, d) for c, n, d in BASE_HEADS})
parts[0]["chain"] = [{"number": str(n), "prev": str(p), "digest": d.hex(), "hash": h.hex(), "channel": c} for n, p, d, h, c in after]
(HERE / "pss-snapshot.json").write_text(json.dumps(parts, indent=2, ensure_ascii=False) + "\n")
