/** ISO 3166 reserves `EU`; here it stands for its member states, as they were when version 1 was written. */
const EU_MEMBERS = new Set('AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK'.split(' '))

/** Whether all of `inner` lies in `outer`: itself, a part of a country, a member of the EU. What cannot be told is no. */
export function covers(outer: string, inner: string): boolean {
  if (outer === inner) return true
  if (outer.includes(':') || inner.includes(':')) return false
  const country = inner.slice(0, 2)
  if (outer === 'EU') return EU_MEMBERS.has(country)
  return outer === country
}

/**
 * Whether no place of `region` lies in `other`, for certain. A provider's name of a region says nothing of countries, nor one provider's of another's, so
 * that stays open and counts as no.
 */
export function isOutside(region: string, other: string): boolean {
  const [provider, otherProvider] = [region, other].map((one) => (one.includes(':') ? one.slice(0, one.indexOf(':')) : ''))
  return provider === otherProvider && !covers(region, other) && !covers(other, region)
}
