import cliProgress from 'cli-progress'
import type { Progress } from '../../sim/index.ts'
import type { Output } from './output.ts'

/** A bar for the phase under way on a terminal, a line at the start of each phase elsewhere, nothing in JSON mode. */
export class SimProgress {
  readonly #out: Output
  readonly #terminal: NodeJS.WritableStream | undefined
  #bar: cliProgress.SingleBar | undefined
  #phase: string | undefined

  constructor(out: Output) {
    this.#out = out
    this.#terminal = out.terminal
  }

  show({ phase, done, total }: Progress): void {
    if (phase !== this.#phase) {
      this.done()
      this.#phase = phase
      if (this.#terminal === undefined) this.#out.progress(`${phase} (${total})`)
      else {
        this.#bar = new cliProgress.SingleBar(
          {
            format: `{phase} {bar} {value}/{total} {duration_formatted}, {eta_formatted} to go`,
            stream: this.#terminal,
            hideCursor: true,
            clearOnComplete: true,
            gracefulExit: false,
            barsize: 30
          },
          cliProgress.Presets.shades_classic
        )
        this.#bar.start(total, 0, { phase: phase.padEnd(24) })
      }
    }
    this.#bar?.update(done)
  }

  done(): void {
    this.#bar?.stop()
    this.#bar = undefined
  }
}
