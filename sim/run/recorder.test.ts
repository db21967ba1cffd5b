import { describe, expect, it } from 'vitest'
import { topology } from '../report/charts.ts'
import { Recorder } from './recorder.ts'

describe('the picture of a large network', () => {
  it('holds the first 400 nodes and 1,000 of the lines between them, spread evenly, and says so', () => {
    const recorder = new Recorder()
    const nodes = Array.from({ length: 500 }, (_, index) => ({ index, region: 'eu', state: 'up' as const }))
    const edges = nodes.flatMap(({ index }) => [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((by): [number, number] => [index, (index + by) % 500]))
    recorder.drew({ atMs: 5, label: 'all up', nodes, edges })
    const drawn = recorder.topologies[0]
    if (drawn === undefined) throw new Error('nothing was drawn')
    expect([drawn.nodes.length, drawn.edges.length, drawn.ofNodes, drawn.ofEdges]).toEqual([400, 1_000, 500, 3_945])
    expect(Math.max(...drawn.edges.map(([from]) => from))).toBeGreaterThan(390)
    expect(new Set(drawn.edges.map(String)).size).toBe(1_000)
    expect(topology(drawn)).toContain('the first 400 of 500 nodes, 1000 of 3945 lines between them')
  })

  it('holds all of a small one', () => {
    const recorder = new Recorder()
    recorder.drew({ atMs: 0, label: 'two', nodes: [0, 1].map((index) => ({ index, region: 'eu', state: 'up' as const })), edges: [[0, 1]] })
    expect(recorder.topologies[0]).toMatchObject({ edges: [[0, 1]], ofNodes: 2, ofEdges: 1 })
    expect(topology(recorder.topologies[0] as NonNullable<(typeof recorder.topologies)[0]>)).toContain('2 nodes, 1 lines between them')
  })
})
