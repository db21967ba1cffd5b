#!/usr/bin/env python3
"""Makes ese-seal.json: seeds, ids and sealed items of an ESE pair (README.md, section 6), sharing no code with the implementation."""
import hashlib, hmac, json, os, struct
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

def label(name):
    return b'rookery/v1/' + name.encode() + b'\0'

def expand(prk, info, length=32):
    out, block, i = b'', b'', 1
    while len(out) < length:
        block = hmac.new(prk, block + info + bytes([i]), hashlib.sha256).digest()
        out += block
        i += 1
    return out[:length]

exported, sid = bytes(range(32)), bytes(range(100, 116))
writer, successor = bytes([0xA1]) * 32, bytes([0xB2]) * 32
run, other = bytes(range(16)), bytes(range(16, 32))

def seed_of(eid):
    return expand(exported, label('ese-seed') + sid + eid)

def id_of(eid):
    return hashlib.sha256(label('ese-id') + sid + eid).digest()[:16]

def seal(seed, name, eid, run, n, plain):
    head = id_of(eid) + run + struct.pack('>Q', n)
    key = expand(seed, label(name) + id_of(eid) + run)
    return head + AESGCM(key).encrypt(struct.pack('>IQ', 0, n), plain, head)

batch = b'\0' + struct.pack('>H', 1) + b'\1' + struct.pack('>H', 1) + b'a' + struct.pack('>I', 2) + b'\x011'
snapshot = b'\1' + batch[1:]
seed = seed_of(writer)
rotated = expand(seed, label('ese-next') + successor)
part = run + struct.pack('>QHH', 2, 0, 1) + snapshot
none = bytes(16) + struct.pack('>QHH', 0, 0, 0)
out = {
    'exported': exported.hex(), 'sid': sid.hex(), 'writer': writer.hex(), 'successor': successor.hex(),
    'id': id_of(writer).hex(), 'successorId': id_of(successor).hex(),
    'seed': seed.hex(), 'rotatedSeed': rotated.hex(),
    'batch': batch.hex(),
    'ops': [
        {'run': run.hex(), 'n': 1, 'payload': seal(seed, 'ese-op', writer, run, 1, batch).hex()},
        {'run': run.hex(), 'n': 2, 'payload': seal(seed, 'ese-op', writer, run, 2, batch).hex()},
        {'run': other.hex(), 'n': 1, 'payload': seal(seed, 'ese-op', writer, other, 1, batch).hex()},
    ],
    'rotatedOp': seal(rotated, 'ese-op', successor, run, 1, batch).hex(),
    'views': [
        {'title': 'one part', 'plain': part.hex(), 'payload': seal(seed, 'ese-view', writer, other, 1, part).hex()},
        {'title': 'none is held', 'plain': none.hex(), 'payload': seal(seed, 'ese-view', writer, other, 2, none).hex()},
    ],
}
with open(os.path.join(os.path.dirname(__file__), 'ese-seal.json'), 'w') as file:
    json.dump(out, file, indent=2)
    file.write('\n')
