/** What a WebAssembly module of one exported function and one page of memory is made of: bytes, as the core specification has them. */
export type Code = readonly number[]

export const I32 = 0x7f
export const V128 = 0x7b

const SIMD = 0xfd

/** Unsigned LEB128. */
export function u(value: number): number[] {
  const out: number[] = []
  let rest = value
  do {
    out.push((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0))
    rest >>>= 7
  } while (rest !== 0)
  return out
}

/** Signed LEB128 of a 32-bit integer. */
export function s(value: number): number[] {
  const out: number[] = []
  let rest = value | 0
  for (;;) {
    const low = rest & 0x7f
    rest >>= 7
    if ((rest === 0 && (low & 0x40) === 0) || (rest === -1 && (low & 0x40) !== 0)) {
      out.push(low)
      return out
    }
    out.push(low | 0x80)
  }
}

const simd =
  (opcode: number) =>
  (...operands: Code[]): Code => [...operands.flat(), SIMD, ...u(opcode)]

export const get = (local: number): Code => [0x20, ...u(local)]
export const set = (local: number, value: Code): Code => [...value, 0x21, ...u(local)]
export const tee = (local: number, value: Code): Code => [...value, 0x22, ...u(local)]
export const i32 = (value: number): Code => [0x41, ...s(value)]
export const i32Add = (a: Code, b: Code): Code => [...a, ...b, 0x6a]

export const and = simd(0x4e)
export const or = simd(0x50)
export const xor = simd(0x51)
export const add = simd(0xae)
export const equal = simd(0x37)
export const splat = simd(0x11)
export const anyTrue = simd(0x53)
export const shiftLeft = (value: Code, by: number): Code => [...value, ...i32(by), SIMD, ...u(0xab)]
export const shiftRight = (value: Code, by: number): Code => [...value, ...i32(by), SIMD, ...u(0xad)]
/** The 32-bit word at `address`, in all four lanes. */
export const loadSplat = (address: number): Code => [...i32(0), SIMD, ...u(0x09), 2, ...u(address)]
/** Four 32-bit lanes. */
export const lanes = (...words: [number, number, number, number]): Code => [
  SIMD,
  ...u(0x0c),
  ...words.flatMap((word) => [word & 255, (word >>> 8) & 255, (word >>> 16) & 255, word >>> 24])
]

/** A loop that `body` leaves by `return` or goes on with by {@link again}. */
export const loop = (body: Code): Code => [0x03, 0x40, ...body, 0x0b]
/** Back to the start of the loop around it where the condition is not zero. */
export const again = (condition: Code): Code => [...condition, 0x0d, 0]
/** Leaves the function with `value` where the condition is not zero. */
export const returnIf = (condition: Code, value: Code): Code => [...condition, 0x04, 0x40, ...value, 0x0f, 0x0b]

const vector = (items: Code[]): number[] => [...u(items.length), ...items.flat()]
const section = (id: number, content: Code): number[] => [id, ...u(content.length), ...content]
const name = (text: string): number[] => [...u(text.length), ...[...text].map((char) => char.charCodeAt(0))]

/**
 * A module that exports `memory` (one page) and `run`, a function of `params` 32-bit integers with one as its result.
 * @param locals - how many locals of V128 follow the parameters
 */
export function wasmModule({ params, locals, body }: { params: number; locals: number; body: Code }): Uint8Array<ArrayBuffer> {
  const type: Code = [0x60, ...vector(Array.from({ length: params }, () => [I32])), ...vector([[I32]])]
  const code: Code = [...vector([[...u(locals), V128]]), ...body, 0x0b]
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, vector([type])),
    ...section(3, vector([[0]])),
    ...section(5, vector([[0x00, 0x01]])),
    ...section(
      7,
      vector([
        [...name('memory'), 0x02, 0],
        [...name('run'), 0x00, 0]
      ])
    ),
    ...section(10, vector([[...u(code.length), ...code]]))
  ])
}
