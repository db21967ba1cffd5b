import { base64url } from 'multiformats/bases/base64'

/** 32 secret bytes as text. */
export function secretText(bytes: Uint8Array): string {
  return base64url.baseEncode(bytes)
}

/** Undefined unless it is base64url of exactly 32 bytes in its one spelling. */
export function secretFromText(text: string): Uint8Array | undefined {
  try {
    const bytes = base64url.baseDecode(text)
    return bytes.length === 32 && base64url.baseEncode(bytes) === text ? bytes : undefined
  } catch {
    return undefined
  }
}
