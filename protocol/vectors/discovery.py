"""Makes work.json, discovery-req.json, discovery-res.json and discovery-item.json: anonymous discovery once more, from its specification and
in another language, so that the vectors do not inherit a mistake of the code they test.

    python3 protocol/vectors/discovery.py     (Python >= 3.11, package `cryptography`)
"""
import hashlib
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent


def H(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def label(name):
    return b"rookery/v1/" + name.encode() + b"\0"


def fixed(name, n=32):
    """Stands for randomness: bytes anyone can make again."""
    return H(b"vector/" + name.encode())[:n]


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
