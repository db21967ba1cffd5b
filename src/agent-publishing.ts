import type { HostedAgent } from './identity/hosted-agent.ts'
import type { NodeParts } from './node-parts.ts'
import type { PublishOptions } from './spaces/spaces.ts'

/** How long a caller that changed an agent waits for the new locator to be stored; it goes on in the background. */
export const PUBLISH_WAIT_MS = 5_000

/** Puts the locators and mail records of our agents where they are found, when something about them changes. */
export class AgentPublishing {
  readonly #parts: Pick<NodeParts, 'clock' | 'config' | 'locators' | 'logger' | 'mailRecords' | 'publishing'>
  readonly #signal: AbortSignal

  /** @param signal - fires when the node stops */
  constructor(parts: Pick<NodeParts, 'clock' | 'config' | 'locators' | 'logger' | 'mailRecords' | 'publishing'>, signal: AbortSignal) {
    this.#parts = parts
    this.#signal = signal
  }

  /** Resolves when the new locator is stored, or after {@link PUBLISH_WAIT_MS} while it goes on; a failure is the refresher's to repeat. */
  async publish(agent: HostedAgent, options: PublishOptions = {}): Promise<void> {
    const { publishing, config, locators, mailRecords, logger } = this.#parts
    if (publishing === 'on-demand' || config.localPoints.agents.includes(agent.name)) return
    const published = locators
      .publish(agent, { signal: this.#signal, ...(options.onProgress === undefined ? {} : { onProgress: options.onProgress }) })
      .then(() => mailRecords.publish(agent, { signal: this.#signal }))
      .then(
        () => undefined,
        (error: unknown) => {
          if (!this.#signal.aborted) logger.warn({ agent: agent.name, err: error }, 'a locator could not be published')
        }
      )
    await this.patiently(published)
    options.signal?.throwIfAborted()
  }

  /** Waits for what goes on anyway, at most {@link PUBLISH_WAIT_MS}. */
  async patiently(work: Promise<void>): Promise<void> {
    const late = Promise.withResolvers<void>()
    const cancel = this.#parts.clock.after(PUBLISH_WAIT_MS, () => late.resolve())
    await Promise.race([work, late.promise])
    cancel()
  }
}
