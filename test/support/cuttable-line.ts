import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A way to a port of this machine that can be cut and mended. */
export interface CuttableLine {
  readonly url: string
  /** ends what goes through it, and whatever comes until it is mended */
  cut(): void
  mend(): void
  close(): Promise<void>
}

export async function cuttableLine(port: number): Promise<CuttableLine> {
  const open = new Set<Socket>()
  let isCut = false
  const server = createServer((near) => {
    if (isCut) return void near.destroy()
    const far = connect(port, '127.0.0.1')
    for (const socket of [near, far]) {
      open.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        open.delete(socket)
        near.destroy()
        far.destroy()
      })
    }
    near.pipe(far)
    far.pipe(near)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const end = () => {
    for (const socket of open) socket.destroy()
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut() {
      isCut = true
      end()
    },
    mend() {
      isCut = false
    },
    async close() {
      end()
      await new Promise((resolve) => server.close(resolve))
    }
  }
}
