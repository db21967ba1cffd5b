/**
 * Whether an encoded Edwards25519 point is of prime order, without multiplying it by that order: three or four exponentiations in the field
 * in place of 252 point doublings.
 *
 * The curve has 8 · L points, its 8-torsion is cyclic and L is prime: a point is of order L exactly if it is 8 times another and not the
 * identity. On the Montgomery form (u, v), v² = u³ + A·u² + u, with u = (1 + y) / (1 − y):
 *
 * - P = 2Q for some Q exactly if u is a square; then Q = (q, r·q) with m = q + 1/q = 2u ± 2·√(u² + A·u + 1), r² = m + A. Exactly one of the two
 *   signs makes m + A a square, as (m₁ + A)(m₂ + A) = A² − 4 is none.
 * - Q = 4R for some R exactly if its Tate pairing with the point (1, c), c² = A + 2, of order 4 vanishes: if (v − c·u)² / u is a fourth power.
 *   The field has the fourth roots of unity, so the pairing is not degenerate.
 *
 * All is computed as multiples of D = 1 − y, so that nothing is inverted; the sign of P, which says nothing of its order, is not looked at.
 */

const P = 2n ** 255n - 19n
const A = 486_662n
/** √−1 */
const I = quarterPower(2n) // 2 is no square
/** √(A + 2) */
const C = sqrt(A + 2n) as bigint

/** @returns false for what is no canonical encoding of a point of prime order: wrong length, y ≥ p, off the curve, small or mixed order */
export function hasPrimeOrder(encoded: Uint8Array): boolean {
  if (encoded.length !== 32) return false
  let y = BigInt((encoded[31] as number) & 0x7f)
  for (let i = 30; i >= 0; i--) y = (y << 8n) | BigInt(encoded[i] as number)
  if (y >= P || y === 1n || y === P - 1n) return false // the identity, and the point of order 2
  const n = 1n + y
  const d = P + 1n - y
  const yy = (y * y) % P
  // on the curve and twice another point, if both are squares: x² · (1 + d·y²) = y² − 1
  const g = sqrt(P + 1n - yy) // D·√u
  const w = sqrt(A + 2n + (P - yy) * (A - 2n)) // D·√(u² + A·u + 1)
  if (g === undefined || w === undefined) return false
  for (const root of [w, P - w]) {
    const rho = sqrt((2n * (n + root) + A * d) * d) // D·r
    if (rho === undefined) continue
    const q = ((n + root) * d + g * rho) % P // D²·q
    const line = rho + C * (P - d) // D·(v − c·u) / u
    return quarterPower((((line * line) % P) * q) % P) === 1n
  }
  return false
}

/** a^((p − 1) / 4): 1 exactly for fourth powers. The exponent is 2^253 − 5 = 8·(2^250 − 1) + 3. */
function quarterPower(a: bigint): bigint {
  return (squared(chain(a), 3) * ((a * a) % P) * a) % P
}

/** @returns undefined for what is no square */
function sqrt(value: bigint): bigint | undefined {
  const a = value % P
  const root = (squared(chain(a), 2) * ((a * a) % P)) % P // a^((p + 3) / 8) = a^(4·(2^250 − 1) + 2)
  const again = (root * root) % P
  if (again === a) return root
  return again === P - a ? (root * I) % P : undefined
}

/** a^(2^250 − 1) */
function chain(a: bigint): bigint {
  const x2 = (((a * a) % P) * a) % P
  const x4 = (squared(x2, 2) * x2) % P
  const x5 = (squared(x4, 1) * a) % P
  const x10 = (squared(x5, 5) * x5) % P
  const x20 = (squared(x10, 10) * x10) % P
  const x40 = (squared(x20, 20) * x20) % P
  const x50 = (squared(x40, 10) * x10) % P
  const x100 = (squared(x50, 50) * x50) % P
  const x200 = (squared(x100, 100) * x100) % P
  return (squared(x200, 50) * x50) % P
}

function squared(value: bigint, times: number): bigint {
  let x = value
  for (let i = 0; i < times; i++) x = (x * x) % P
  return x
}
