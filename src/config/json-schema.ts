import { z } from 'zod'
import { configSchema } from './schema.ts'
import { listSettings, type Setting } from './setting-list.ts'
import { SETTING_WORDS } from './setting-words.ts'

type Node = { [key: string]: unknown }

/** JSON Schema (2020-12) of the settings file, for editors; lengths of time are text with a unit. */
export function configJsonSchema(): Node {
  const schema = z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }) as Node
  delete (schema.properties as Node).dataDir
  for (const setting of listSettings()) {
    const node = at(schema, setting)
    if (node === undefined) continue
    if (typeof node.default === 'string' && /^\d+(ms|s|m|h|d)$/.test(node.default)) {
      node.type = 'string'
      node.pattern = '^[0-9]{1,10}(\\.[0-9]{1,3})?(ms|s|m|h|d)$'
    }
    node.description = SETTING_WORDS[setting.name]
  }
  return { ...schema, title: 'Settings of a Rookery node' }
}

function at(schema: Node, { path }: Setting): Node | undefined {
  let node: Node | undefined = schema
  for (const part of path) node = (node?.properties as Node | undefined)?.[part] as Node | undefined
  return node
}

/** The default of a setting as one writes it; undefined where absence is the default. */
export function defaultsByName(): Map<string, unknown> {
  const schema = z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' }) as Node
  return new Map(listSettings().map((setting) => [setting.name, at(schema, setting)?.default]))
}
