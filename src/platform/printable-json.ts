/** Control characters above 0x1f, which JSON leaves as they are, and what turns the direction of writing around. */
const STEERING = /[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g

/** JSON that means the same and holds no character that steers the terminal that it is printed on. */
export function printableJson(json: string): string {
  return json.replaceAll(STEERING, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
