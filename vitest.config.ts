import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

/** Hundreds of processes begin with the same modules: the first compiles them for all. */
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules', '.cache', 'compiled')

/** `unit` needs no sockets; `integration` opens real QUIC on loopback; `e2e` starts the product as its users do. */
export default defineConfig({
  test: {
    pool: 'forks',
    maxWorkers: 3,
    projects: [
      {
        extends: true,
        test: { name: 'unit', include: ['protocol/**/*.test.ts', 'test/unit/**/*.test.ts', 'sim/**/*.test.ts'], testTimeout: 30_000 }
      },
      {
        extends: true,
        test: { name: 'integration', include: ['test/integration/**/*.test.ts'], testTimeout: 60_000, hookTimeout: 60_000 }
      },
      {
        extends: true,
        test: { name: 'e2e', include: ['test/e2e/**/*.test.ts'], testTimeout: 180_000, hookTimeout: 120_000 }
      }
    ]
  }
})
