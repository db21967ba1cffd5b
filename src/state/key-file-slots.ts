import { closeSync, fdatasyncSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs'
import type { Random } from '../platform/random.ts'
import { type Cells, KEY_BYTES, type KeySlots, Slots } from './key-slots.ts'

/** In the data directory, beside the store. */
export const ESE_KEYS_FILE = 'ese-keys'

/**
 * In one file of its own, 32 bytes a slot, overwritten in place: a database keeps what it replaces until it compacts, a file does not. (A file
 * system that copies on write, or a disk that moves blocks, may keep it none the less: protocol/README.md §10.)
 * @throws the system's error
 */
export function openKeySlots(path: string, random: Random): KeySlots & { close(): void } {
  const fd = openSync(path, openFlags(path), 0o600)
  let size = Math.floor(fstatSync(fd).size / KEY_BYTES)
  ftruncateSync(fd, size * KEY_BYTES) // a growth that a crash cut short
  const cells: Cells = {
    get size() {
      return size
    },
    read(slot) {
      const key = new Uint8Array(KEY_BYTES)
      readSync(fd, key, 0, KEY_BYTES, slot * KEY_BYTES)
      return key
    },
    write(slot, keys) {
      for (let at = 0; at < keys.length; ) at += writeSync(fd, keys, at, keys.length - at, slot * KEY_BYTES + at)
      size = Math.max(size, slot + keys.length / KEY_BYTES)
    },
    sync: () => fdatasyncSync(fd)
  }
  const slots = new Slots(cells, random)
  let isOpen = true
  return Object.assign(slots, {
    close() {
      if (isOpen) closeSync(fd)
      isOpen = false
    }
  })
}

function openFlags(path: string): string {
  try {
    closeSync(openSync(path, 'r'))
    return 'r+'
  } catch {
    return 'w+'
  }
}
