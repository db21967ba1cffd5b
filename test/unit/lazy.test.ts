import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LazyMap, LazySet } from '../../protocol/lazy.ts'

const acts = fc.array(fc.tuple(fc.constantFrom('put', 'delete', 'clear'), fc.nat(4), fc.nat(9)), { maxLength: 30 })

describe('maps and sets that are made with their first entry', () => {
  it('are to whoever uses them what Map and Set are, in the same order', () => {
    fc.assert(
      fc.property(acts, (list) => {
        const [map, set] = [new Map<number, number>(), new Set<number>()]
        const [lazyMap, lazySet] = [new LazyMap<number, number>(), new LazySet<number>()]
        for (const [act, key, value] of list) {
          if (act === 'put') {
            expect(lazyMap.set(key, value)).toBe(lazyMap)
            expect(lazySet.add(key)).toBe(lazySet)
            map.set(key, value)
            set.add(key)
          } else if (act === 'delete') {
            expect([lazyMap.delete(key), lazySet.delete(key)]).toEqual([map.delete(key), set.delete(key)])
          } else for (const one of [map, set, lazyMap, lazySet]) one.clear()
          const seen: [number, number][] = []
          lazyMap.forEach((one, name, whole) => {
            expect(whole).toBe(lazyMap)
            seen.push([name, one])
          })
          for (const entries of [[...lazyMap], [...lazyMap.entries()], seen]) expect(entries).toEqual([...map])
          expect([[...lazyMap.keys()], [...lazyMap.values()], lazyMap.size]).toEqual([[...map.keys()], [...map.values()], map.size])
          expect([[...lazySet], lazySet.size, lazySet.has(key), lazyMap.has(key), lazyMap.get(key)]).toEqual([
            [...set],
            set.size,
            set.has(key),
            map.has(key),
            map.get(key)
          ])
        }
        expect([...new LazyMap(map)]).toEqual([...map])
      })
    )
  })
})
