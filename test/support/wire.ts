import type { Link } from '../../src/local/link.ts'

/** A wire on which everybody hears everybody else. */
export class Wire {
  readonly #ends: { ip: string; listener: Parameters<Link['listen']>[0] | undefined }[] = []
  readonly heard: Uint8Array[] = []

  end(ip: string): Link {
    const end: { ip: string; listener: Parameters<Link['listen']>[0] | undefined } = { ip, listener: undefined }
    this.#ends.push(end)
    const others = () => this.#ends.filter((one) => one !== end)
    return {
      announce: (records) => {
        for (const record of records) {
          this.heard.push(record)
          for (const other of others()) other.listener?.record(record, ip)
        }
      },
      ask: () => {
        for (const other of others()) other.listener?.asked()
      },
      listen: (listener) => {
        end.listener = listener
      },
      close: async () => {
        end.listener = undefined
      }
    }
  }
}
