import cliProgress from 'cli-progress'
import type { WorkProgress } from '../work/work-solver.ts'
import type { Output } from './output.ts'

/** Nobody knows when a search for work ends: the bar shows how likely it is to be done by now. */
export class WorkBar {
  readonly #out: Output
  #bar: cliProgress.SingleBar | undefined
  #toldBits: number | undefined

  constructor(out: Output) {
    this.#out = out
  }

  show(progress: WorkProgress): void {
    const { bits, probability } = progress
    const terminal = this.#out.terminal
    if (terminal === undefined) {
      if (this.#toldBits !== bits) this.#out.progress(`working: ${bits} bits, about ${progress.expected.toLocaleString('en')} tries`)
    } else {
      if (this.#bar === undefined) {
        this.#bar = new cliProgress.SingleBar(
          {
            format: 'working {bits} bits {bar} {percentage}% likely done  {rate}  {eta}',
            stream: terminal,
            hideCursor: true,
            clearOnComplete: true,
            gracefulExit: false,
            barsize: 30
          },
          cliProgress.Presets.shades_classic
        )
        this.#bar.start(1_000, 0, words(progress))
      }
      this.#bar.update(Math.round(probability * 1_000), words(progress))
    }
    this.#toldBits = bits
  }

  done(): void {
    this.#bar?.stop()
    this.#bar = undefined
  }
}

function words({ bits, triesPerSec, etaMs }: WorkProgress): { bits: number; rate: string; eta: string } {
  return {
    bits,
    rate: triesPerSec > 0 ? `${(triesPerSec / 1e6).toFixed(1)} M/s` : '',
    eta: Number.isFinite(etaMs) ? `about ${Math.max(0.1, etaMs / 1_000).toFixed(1)} s more` : ''
  }
}
