import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os'

let known: NetworkInterfaceInfo[] = []

/**
 * The addresses of this machine. To ask for them takes a file descriptor: where there is none left the last answer stands, for a node that ends
 * because it cannot ask helps nobody.
 * @param read - for tests
 */
export function machineAddresses(read: typeof networkInterfaces = networkInterfaces): readonly NetworkInterfaceInfo[] {
  try {
    known = Object.values(read()).flatMap((list) => list ?? [])
  } catch {
    // asked again next time
  }
  return known
}
