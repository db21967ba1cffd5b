import type { Region } from '../scenario/definition.ts'

/**
 * Median round trips between continents, milliseconds: what large public measurement sets of cloud regions show, rounded to five. Symmetric;
 * the diagonal is within one continent.
 */
export const ROUND_TRIP_MS: Readonly<Record<Region, Readonly<Record<Region, number>>>> = {
  africa: { africa: 60, asia: 240, europe: 150, 'north-america': 230, oceania: 330, 'south-america': 330 },
  asia: { africa: 240, asia: 70, europe: 190, 'north-america': 180, oceania: 130, 'south-america': 300 },
  europe: { africa: 150, asia: 190, europe: 25, 'north-america': 100, oceania: 270, 'south-america': 195 },
  'north-america': { africa: 230, asia: 180, europe: 100, 'north-america': 40, oceania: 170, 'south-america': 130 },
  oceania: { africa: 330, asia: 130, europe: 270, 'north-america': 170, oceania: 25, 'south-america': 300 },
  'south-america': { africa: 330, asia: 300, europe: 195, 'north-america': 130, oceania: 300, 'south-america': 40 }
}

/** Bytes a second, up and down, of a kind of machine on its usual line. */
export const BANDWIDTH: Readonly<Record<'server' | 'laptop' | 'phone' | 'sensor', { up: number; down: number }>> = {
  server: { up: 125_000_000, down: 125_000_000 },
  laptop: { up: 2_500_000, down: 12_500_000 },
  phone: { up: 1_250_000, down: 5_000_000 },
  sensor: { up: 31_250, down: 31_250 }
}
