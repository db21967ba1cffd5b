/** Every target, by the module of this folder that holds it. A test holds that they are the same. */
export const TARGET_FILES = {
  codecs: ['cbor', 'strict-json', 'space-names', 'identities', 'agent-cards', 'jws', 'edge-cloud'],
  records: ['records', 'evidence'],
  messages: ['registry', 'friends-and-points', 'mailbox', 'refusals', 'discovery'],
  frames: ['frames', 'items'],
  machines: ['handshake', 'session', 'group'],
  edges: ['a2a-json', 'control', 'work', 'config', 'scenario', 'backup', 'texts'],
  http: ['http'],
  'control-http': ['control-http'],
  'agent-doors': ['agent-doors'],
  'ops-http': ['ops-http'],
  peers: ['libp2p-messages', 'a2a-channel'],
  backups: ['restore', 'import'],
  stores: ['rows', 'queue'],
  states: ['ese', 'patches', 'group-messages']
} as const satisfies Record<string, readonly string[]>
