/** The edge-cloud capability contract, as it is advertised (G-63). */
export const EDGE_CLOUD_CONTRACT_URI = 'https://github.com/a2aproject/a2a-samples/extensions/edge-cloud-capability-contract/v1'
/** The spelling that the proposal was handed down in; it is understood as the same extension, and never advertised (G-63). */
export const EDGE_CLOUD_CONTRACT_ALIAS = 'https://github.qkg1.top/a2aproject/a2a-samples/extensions/edge-cloud-capability-contract/v1'
/** Both, the advertised one first. */
export const EDGE_CLOUD_CONTRACT_URIS = [EDGE_CLOUD_CONTRACT_URI, EDGE_CLOUD_CONTRACT_ALIAS] as const
export type EdgeCloudContractUri = (typeof EDGE_CLOUD_CONTRACT_URIS)[number]

/** Which spelling a caller activates; the advertised one where it names both. */
export function contractUriIn(extensions: readonly string[]): EdgeCloudContractUri | undefined {
  return EDGE_CLOUD_CONTRACT_URIS.find((uri) => extensions.includes(uri))
}
