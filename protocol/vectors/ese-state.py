#!/usr/bin/env python3
"""Makes ese-state.json: batches and states of ESEs (README.md, section 6), sharing no code with the implementation."""
import hashlib, json, os, struct

def jcs(value):
    return json.dumps(value, sort_keys=True, separators=(',', ':'), ensure_ascii=False).encode()

def value(v):
    return b'\x02' + v if isinstance(v, bytes) else b'\x01' + jcs(v)

def change(op, key, body=None):
    k = key.encode()
    head = bytes([{'set': 1, 'delete': 2, 'patch': 3, 'merge': 4}[op]]) + struct.pack('>H', len(k)) + k
    return head if body is None else head + struct.pack('>I', len(body)) + body

def batch(changes, clear=False):
    return bytes([1 if clear else 0]) + struct.pack('>H', len(changes)) + b''.join(changes)

def state_hash(state):
    leaves = b''
    for k in sorted(k.encode() for k in state):
        leaves += hashlib.sha256(struct.pack('>H', len(k)) + k + value(state[k.decode()])).digest()
    return hashlib.sha256(b'rookery/v1/ese-state\0' + struct.pack('>I', len(state)) + leaves).hexdigest()

def plain(state):
    return {k: {'blob': v.hex()} if isinstance(v, bytes) else {'json': v} for k, v in state.items()}

steps, state = [], {}
def step(title, changes, clear=False):
    steps.append({'title': title, 'batch': batch(changes, clear).hex(), 'state': plain(state), 'hash': state_hash(state)})

step('nothing', [])
state['a'] = 1
state['blob'] = b'\x00\xff'
step('set a number and a blob', [change('set', 'a', value(1)), change('set', 'blob', value(b'\x00\xff'))])
state['task/1'] = {'title': 'caf\u00e9', 'done': None, 'share': 0.5}
step('set an object with null and a fraction', [change('set', 'task/1', value(state['task/1']))])
state['task/1'] = {'title': 'caf\u00e9', 'done': None, 'share': 0.5, 'tags': ['x', 'y']}
step('patch (RFC 6902)', [change('patch', 'task/1', jcs([{'op': 'add', 'path': '/tags', 'value': ['y']}, {'op': 'add', 'path': '/tags/0', 'value': 'x'}]))])
state['task/1'] = {'title': 'tea', 'share': 0.5, 'tags': ['x', 'y']}
step('merge (RFC 7396): null takes a member away', [change('merge', 'task/1', jcs({'title': 'tea', 'done': None}))])
state['new'] = {'n': {}}
step('merge where nothing was', [change('merge', 'new', jcs({'n': {'x': None}}))])
del state['a']
step('delete, twice', [change('delete', 'a'), change('delete', 'a')])
state['\U0001F600'] = True
state['\uffee'] = False
step('keys in the order of their bytes, not of UTF-16', [change('set', '\U0001F600', value(True)), change('set', '\uffee', value(False))])
state = {'only': []}
step('clear, then set', [change('set', 'only', value([]))], clear=True)

refused = [
    ('unknown flag', '020000', 'RANGE'),
    ('unknown op', batch([bytes([9]) + b'\0\1a']).hex(), 'RANGE'),
    ('empty key', batch([change('delete', '')]).hex(), 'TOO_LARGE'),
    ('long key', batch([change('delete', 'k' * 257)]).hex(), 'TOO_LARGE'),
    ('key that is no UTF-8', batch([b'\x02\0\1\xff']).hex(), 'UTF8_INVALID'),
    ('trailing byte', batch([]).hex() + '00', 'TRAILING_BYTES'),
    ('ends early', batch([change('set', 'a', value(1))]).hex()[:-2], 'TRUNCATED'),
    ('no such value type', batch([change('set', 'a', b'\x03')]).hex(), 'FIELD_INVALID'),
    ('members out of order', batch([change('set', 'a', b'\x01{"b":1,"a":1}')]).hex(), 'FIELD_INVALID'),
    ('a number in another spelling', batch([change('set', 'a', b'\x011.0')]).hex(), 'FIELD_INVALID'),
    ('patch of nothing', batch([change('patch', 'a', jcs([]))]).hex(), 'FIELD_INVALID'),
    ('patch of a blob', batch([change('set', 'a', value(b'')), change('merge', 'a', jcs({}))]).hex(), 'FIELD_INVALID'),
    ('a test that fails', batch([change('set', 'a', value(1)), change('patch', 'a', jcs([{'op': 'test', 'path': '', 'value': 2}]))]).hex(), 'FIELD_INVALID'),
]
out = {'steps': steps, 'refused': [{'title': t, 'batch': b, 'code': c} for t, b, c in refused]}
with open(os.path.join(os.path.dirname(__file__), 'ese-state.json'), 'w') as file:
    json.dump(out, file, indent=2, ensure_ascii=False)
    file.write('\n')
