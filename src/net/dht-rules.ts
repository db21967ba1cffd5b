import { RookeryError } from '../errors.ts'

/** The first parts of a DHT key that this network knows (protocol/README.md §3); a holder refuses every other. */
export const DHT_NAMESPACES = ['eid', 'ds', 'dsj', 'gp', 'mail'] as const
export type DhtNamespace = (typeof DHT_NAMESPACES)[number]

/** The longest key is `/dsj/` and two hashes. */
export const DHT_KEY_BYTES_MAX = 80
/** protocol/README.md §3: 1,792 with the envelope. Longer values are refused before anything looks into them. */
export const DHT_VALUE_BYTES_MAX = 1_792

/** What a holder and a reader ask about a value; protocol/README.md §3 has the rules, one set for put and get. */
export interface DhtRules {
  /** Throws unless `value` may stand at `key` now: envelope, namespace, key, signer, signature, times, sizes. */
  validate(key: Uint8Array, value: Uint8Array, nowMs: number): void
  /** Which of two valid values stays at `key`. */
  select(key: Uint8Array, held: Uint8Array, offered: Uint8Array): 'held' | 'offered'
  /** From this moment of wall time on the value is neither served nor returned. */
  expiresAtMs(key: Uint8Array, value: Uint8Array): number
}

/**
 * The namespace of a key such as `/eid/` followed by raw bytes.
 * @throws RookeryError `DHT_NAMESPACE_UNKNOWN`
 */
export function namespaceOf(key: Uint8Array): DhtNamespace {
  const end = key.indexOf(0x2f, 1)
  const name = key[0] === 0x2f && end > 1 && end <= 8 ? String.fromCharCode(...key.subarray(1, end)) : ''
  const known = DHT_NAMESPACES.find((one) => one === name)
  if (known === undefined || key.length > DHT_KEY_BYTES_MAX) {
    throw new RookeryError('DHT_NAMESPACE_UNKNOWN', 'no rule says what may stand at this DHT key', {
      kind: 'refused',
      field: 'key',
      value: name,
      remedy: `keys begin with one of ${DHT_NAMESPACES.map((one) => `/${one}/`).join(', ')}`
    })
  }
  return known
}

/**
 * Length, namespace, then the rules themselves.
 * @throws RookeryError `DHT_NAMESPACE_UNKNOWN`, `DHT_VALUE_TOO_LARGE`; whatever the rules throw
 */
export function checkValue(rules: DhtRules, key: Uint8Array, value: Uint8Array, nowMs: number): void {
  namespaceOf(key)
  if (value.length > DHT_VALUE_BYTES_MAX) {
    throw new RookeryError('DHT_VALUE_TOO_LARGE', `a DHT value has at most ${DHT_VALUE_BYTES_MAX} bytes, not ${value.length}`, {
      kind: 'refused',
      field: 'value',
      value: value.length
    })
  }
  rules.validate(key, value, nowMs)
}
