/** Members of one group, its owner included. A statement with all of them still fits beside a key in one item of the protocol's own (4,096 bytes). */
export const GROUP_MEMBERS_MAX = 64
/** A group's name for people, UTF-8. */
export const GROUP_NAME_BYTES_MAX = 64
export const GID_BYTES = 16
export const RUN_BYTES = 16
export const DGK_BYTES = 32
/** A group key is replaced after this at the latest, and on every change of members (G-54). */
export const DGK_LIFE_MS = 3_600_000
/** Keys of so many epochs are held, the current one included; what was sealed under an older one is read no more. */
export const EPOCHS_KEPT = 32
/** A writer publishes its whole state again when its log reaches back so many epochs: so nothing that lives depends on keys about to go. */
export const SNAPSHOT_AFTER_EPOCHS = 8
/** … or after so many ops, or so many bytes of them, since it last did. */
export const SNAPSHOT_AFTER_OPS = 1_024
export const SNAPSHOT_AFTER_BYTES = 1_048_576
/** What one writer's state may take, encoded: a snapshot of it is one op, and an op is one item. */
export const WRITER_STATE_BYTES_MAX = 1_000_000
/** Ops of one run that are kept for others, from its last snapshot on. A writer that goes on beyond is not followed. */
export const RUN_LOG_OPS_MAX = 4_096
export const RUN_LOG_BYTES_MAX = 4 * 1_048_576
/** Earlier runs of one writer that are remembered, so as not to be asked for again; the oldest is forgotten. */
export const RUNS_SUPERSEDED_KEPT = 16
/** Entries of a vector: one run a member. In READY, whose count is a u8, of all groups together. */
export const VECTOR_ENTRIES_MAX = GROUP_MEMBERS_MAX
export const READY_VECTOR_ENTRIES_MAX = 255
/** Of peers that are no members (yet), so many have what they tell of runs kept; of others only their epoch. */
export const STRANGERS_HEARD_MAX = 64
/** What changed is told after this, so that many changes are told at once. */
export const VECTOR_DELAY_MS = 100
/** Told again though nothing changed. */
export const VECTOR_PERIOD_MS = 600_000
/** How long a run may stand still before others than its writer are asked for it. */
export const PULL_GRACE_MS = 500
/** An answer that does not come: another peer is asked. */
export const WANT_TIMEOUT_MS = 5_000
/** … the next time after twice as long, up to this: what nobody may give one is not asked for without end. */
export const WANT_TIMEOUT_MAX_MS = 60_000
/** Ops that one request asks for. */
export const WANT_OPS_MAX = 512
/** A key that a peer does not take is offered again after 5 s, 10 s … up to this: an invitation may be refused. */
export const KEY_AGAIN_MAX_MS = 600_000
/** A member that restarted waits so long after the last of its own earlier ops came back, then goes on from them. */
export const RECOVERY_MS = 2_000
/** Who is not the owner passes a new key on when a peer still lacks it after this. */
export const KEY_RELAY_MS = 1_000
