/** What an engine saw that an invariant judges. Nodes by index, messages by the number that the plan gave them. */
export type Fact =
  /** the sender was told that its message is kept or delivered */
  | { fact: 'acked'; id: number; node: number; to: number }
  /** the receiver's agent was handed it */
  | { fact: 'notified'; id: number; node: number }
  /** at the end: it still waits on the receiver's disk */
  | { fact: 'waiting'; node: number; ids: readonly number[] }
  /** an ack came, or a session ended: what the two ends hold of one direction at one number */
  | { fact: 'hashes'; node: number; to: number; agree: boolean; detail: string }
  /** where one end says that a direction of a session stands; `chain` names the direction at both ends */
  | { fact: 'chain'; node: number; chain: string; seq: string; hash: string }
  /** a reader showed a record */
  | { fact: 'served'; node: number; expiresAtMs: number; nowMs: number }
  /** a node holds state for a session */
  | { fact: 'session-state'; node: number; cookie: 'valid' | 'none' }
  | { fact: 'queue'; node: number; length: number; bound: number }
  /** an honest node searched a space that has honest members */
  | { fact: 'searched'; node: number; honestFound: number; hostileShare: number }
  | { fact: 'blacklisted'; node: number; victim: number; victimIs: 'honest' | 'hostile' }
  /** what idle nodes held when they began to be idle, and later: bytes, or entries in a model */
  | { fact: 'idle'; nodes: number; before: number; after: number; slackEach: number }
