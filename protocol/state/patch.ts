import { canonicalJson } from '../canonical-json.ts'
import { ProtocolError } from '../errors.ts'
import type { JsonValue } from './json.ts'

/** Operations of one JSON Patch. */
export const PATCH_OPS_MAX = 1_024
/** What the `copy` operations of one patch may copy in all, as canonical text: without it 40 of them would make a terabyte. */
export const PATCH_COPY_CHARS_MAX = 524_288

/** One operation of RFC 6902; paths are JSON Pointers (RFC 6901). */
export type JsonPatchOp =
  | { op: 'add' | 'replace' | 'test'; path: string; value: JsonValue }
  | { op: 'remove'; path: string }
  | { op: 'move' | 'copy'; from: string; path: string }

type JsonObject = { [name: string]: JsonValue }

/**
 * RFC 6902: all operations, or none.
 * @param target - not changed
 * @throws ProtocolError `FIELD_INVALID` naming the operation, `TOO_LARGE`
 */
export function applyJsonPatch(target: JsonValue, patch: readonly JsonPatchOp[]): JsonValue {
  if (patch.length > PATCH_OPS_MAX) throw new ProtocolError('TOO_LARGE', `a patch of ${patch.length} operations`, { field: 'patch' })
  const root = { document: copyOf(target) }
  let copied = 0
  patch.forEach((one, i) => {
    const at = place(i, one.path)
    switch (one.op) {
      case 'add':
        add(root, at, copyOf(one.value))
        break
      case 'remove':
        remove(root, at)
        break
      case 'replace':
        remove(root, at)
        add(root, at, copyOf(one.value))
        break
      case 'test':
        if (canonicalJson(find(root, at)) !== canonicalJson(one.value)) throw refused(i, 'the test fails')
        break
      case 'move': {
        const from = place(i, one.from)
        if (one.path.startsWith(`${one.from}/`)) throw refused(i, 'a value cannot move into itself')
        const moved = find(root, from)
        remove(root, from)
        add(root, at, moved)
        break
      }
      case 'copy': {
        const value = find(root, place(i, one.from))
        copied += canonicalJson(value).length
        if (copied > PATCH_COPY_CHARS_MAX) throw new ProtocolError('TOO_LARGE', 'a patch copies too much', { field: `patch[${i}]` })
        add(root, at, copyOf(value))
        break
      }
    }
  })
  return root.document
}

/**
 * What came as a patch, checked.
 * @throws ProtocolError `FIELD_INVALID`, `TOO_LARGE`
 */
export function jsonPatchOf(value: JsonValue): JsonPatchOp[] {
  if (!Array.isArray(value)) throw new ProtocolError('FIELD_INVALID', 'a JSON Patch is a list', { field: 'patch' })
  if (value.length > PATCH_OPS_MAX) throw new ProtocolError('TOO_LARGE', `a patch of ${value.length} operations`, { field: 'patch' })
  return value.map((one, i) => {
    if (!isObject(one)) throw refused(i, 'it is no object')
    const text = (name: string): string => {
      const member = own(one, name)
      if (typeof member !== 'string') throw refused(i, `"${name}" is no text`)
      return member
    }
    const op = text('op')
    const path = text('path')
    switch (op) {
      case 'add':
      case 'replace':
      case 'test': {
        const member = own(one, 'value')
        if (member === undefined) throw refused(i, '"value" is missing')
        return { op, path, value: member }
      }
      case 'remove':
        return { op, path }
      case 'move':
      case 'copy':
        return { op, path, from: text(`from`) }
      default:
        throw refused(i, 'it is no operation of RFC 6902')
    }
  })
}

/** RFC 7396: members that are null go, objects merge, all else replaces. @param target - not changed; undefined: there is none yet */
export function applyMergePatch(target: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isObject(patch)) return copyOf(patch)
  const result: JsonObject = {}
  if (isObject(target)) for (const name of Object.keys(target)) put(result, name, copyOf(target[name] as JsonValue))
  for (const name of Object.keys(patch)) {
    const member = patch[name] as JsonValue
    if (member === null) delete result[name]
    else put(result, name, applyMergePatch(own(result, name), member))
  }
  return result
}

interface Place {
  index: number
  path: string[]
}

function place(index: number, pointer: string): Place {
  if (pointer === '') return { index, path: [] }
  if (!pointer.startsWith('/')) throw refused(index, 'a path begins with "/"')
  const path = pointer
    .slice(1)
    .split('/')
    .map((part) => {
      if (/~(?![01])/.test(part)) throw refused(index, 'a path holds "~" without 0 or 1')
      return part.replaceAll('~1', '/').replaceAll('~0', '~')
    })
  return { index, path }
}

/** The container of the last step, and that step. */
function holder(root: { document: JsonValue }, { index, path }: Place): { container: JsonValue; name: string } {
  let container = root.document
  for (const name of path.slice(0, -1)) container = step(container, name, index)
  return { container, name: path.at(-1) as string }
}

function step(container: JsonValue, name: string, index: number): JsonValue {
  const found = Array.isArray(container) ? container[position(name, container.length - 1, index)] : own(container, name)
  if (found === undefined) throw refused(index, 'nothing is at its path')
  return found
}

function find(root: { document: JsonValue }, at: Place): JsonValue {
  if (at.path.length === 0) return root.document
  const { container, name } = holder(root, at)
  return step(container, name, at.index)
}

function add(root: { document: JsonValue }, at: Place, value: JsonValue): void {
  if (at.path.length === 0) {
    root.document = value
    return
  }
  const { container, name } = holder(root, at)
  if (Array.isArray(container)) {
    container.splice(name === '-' ? container.length : position(name, container.length, at.index), 0, value)
  } else if (isObject(container)) put(container, name, value)
  else throw refused(at.index, 'its path leads through a value that holds nothing')
}

function remove(root: { document: JsonValue }, at: Place): void {
  if (at.path.length === 0) {
    root.document = null
    return
  }
  const { container, name } = holder(root, at)
  step(container, name, at.index)
  if (Array.isArray(container)) container.splice(position(name, container.length - 1, at.index), 1)
  else delete (container as JsonObject)[name]
}

function position(name: string, max: number, index: number): number {
  const at = /^(0|[1-9][0-9]{0,8})$/.test(name) ? Number(name) : Number.NaN
  if (!(at <= max)) throw refused(index, 'it names no place in the list')
  return at
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Never what an object inherits. */
function own(value: JsonValue | undefined, name: string): JsonValue | undefined {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

/** A member named `__proto__` is a member like any other. */
function put(object: JsonObject, name: string, value: JsonValue): void {
  Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true })
}

function copyOf(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(copyOf)
  if (!isObject(value)) return value
  const copy: JsonObject = {}
  for (const name of Object.keys(value)) put(copy, name, copyOf(value[name] as JsonValue))
  return copy
}

function refused(index: number, why: string): ProtocolError {
  return new ProtocolError('FIELD_INVALID', `operation ${index} of the patch: ${why}`, { field: `patch[${index}]` })
}
