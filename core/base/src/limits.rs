//! The limits that are not options: sizes the code is built around, with their relations asserted.

use crate::Span;

/// Shards per node: a shard set must fit one machine word.
pub const SHARDS_MAX: usize = 64;
/// Addresses of other servers that a client is told: more than it will try.
pub const ADDRESSES_MAX: usize = 8;
/// Bytes of each of them.
pub const ADDRESS_BYTES_MAX: usize = 256;
/// Bytes of one path in its canonical spelling.
pub const PATH_BYTES_MAX: usize = 1024;
/// Levels of one path: deeper ones serve attacks more often than people.
pub const PATH_DEPTH_MAX: usize = 64;
/// Wildcards inside one level of a pattern; keeps matching linear in practice.
pub const PATTERN_STARS_PER_LEVEL_MAX: usize = 4;
/// Levels of one selector that are regular expressions compiled to automata; of all members of a set
/// together, since each costs its compilation.
pub const SELECTOR_REGEXES_MAX: usize = 16;
/// Bytes of one such level as text.
pub const REGEX_BYTES_MAX: usize = 256;
/// Groups inside groups of a regular expression; parsing goes as deep.
pub const REGEX_DEPTH_MAX: u32 = 16;
/// Bytes of each automaton on the way from a regular expression to what is kept: this bounds the time
/// of compiling, and what is kept is smaller.
pub const REGEX_AUTOMATON_BYTES_MAX: usize = 24 * 1024;
/// Bytes made on the way to automata after which a session takes in no more of its input in a turn: up
/// to six milliseconds.
pub const INTAKE_COMPILED_BYTES_MAX: u64 = 64 * 1024;
/// The same for what cannot stop in its midst: what came before a login, or packets of one request. More
/// is refused.
pub const WHOLE_COMPILED_BYTES_MAX: u64 = 5 * INTAKE_COMPILED_BYTES_MAX;
/// Messages inside one message of a transport after which a session stops, too.
pub const INTAKE_MESSAGES_MAX: usize = 1024;
/// Compiled bytes that the subscriptions of one session may hold.
pub const REGEX_BYTES_PER_SESSION_MAX: usize = 1024 * 1024;
/// Compiled bytes of the distinct patterns that one shard's subscriptions may hold: about as many
/// ordinary expressions as a lookup should have to try.
pub const REGEX_BYTES_PER_SHARD_MAX: usize = 32 * 1024 * 1024;
/// Bytes of one selector, a set with all its members.
pub const SELECTOR_BYTES_MAX: usize = 8 * 1024;
/// Members of one set.
pub const SELECTOR_MEMBERS_MAX: usize = 64;
/// Bytes of a value that conditions look into, and of one that a patch or a merge changes: it is parsed
/// and walked by the shard that all others wait for. Some milliseconds.
pub const CHANGED_VALUE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a value that a delta makes; it is copied by the shard that all others wait for.
pub const DELTA_VALUE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes at which a run of messages is closed and the next begun: half a typical L2 share, large
/// enough that per-run costs vanish, small enough that a run is still cached when it is written.
pub const RUN_BYTES_TARGET: usize = 64 * 1024;
/// Messages at which a run is closed even when they are tiny.
pub const RUN_MESSAGES_MAX: usize = 4096;
/// Shared blocks below this size are copied into the connection's own write block: an extra
/// `iovec` costs the kernel more than copying them.
pub const COPY_BYTES_MAX: usize = 2048;
/// Distinct wire encodings kept per run; further ones are encoded per subscriber.
pub const ENCODINGS_PER_RUN_MAX: usize = 8;
/// Messages from this size on are sent by reference instead of being copied into what is written.
pub const APART_BYTES_MIN: usize = 16 << 10;
/// Bodies from this size on stay in the file that they arrived in, if they came by way of one, instead of being copied
/// into memory.
pub const IN_FILE_BYTES_MIN: usize = 64 << 10;
/// Bodies in files up to this size may be copied into memory for a session; larger ones only leave straight from their
/// file.
pub const COPIED_BODY_BYTES_MAX: usize = 16 << 20;
/// Bytes that may come behind the first message of a session before its login is done, on transports
/// that mark messages; on a stream they wait where they are.
pub const EARLY_BYTES_MAX: usize = 64 << 10;
/// Operations of one session that read and are under way at a time: their answers hold up to a mebibyte
/// of values each, or one value.
pub const LARGE_ANSWERS_MAX: usize = 16;
/// Bytes of the text by which a client, or the server, says why an exchange ended.
pub const SENTENCE_BYTES_MAX: usize = 1 << 10;
/// The longest time between two updates of a topic that a subscription may ask for.
pub const INTERVAL_MAX: Span = Span::from_secs(86_400);
/// What a connection may take from its session's backlog in one turn.
pub const WRITE_BLOCK_BYTES: usize = 256 * 1024;

const _: () =
    assert!(RUN_BYTES_TARGET * 2 <= WRITE_BLOCK_BYTES, "a turn must fit at least two runs");
const _: () = assert!(COPY_BYTES_MAX < RUN_BYTES_TARGET, "whole runs are shared, not copied");
const _: () = assert!(SHARDS_MAX <= u64::BITS as usize, "shard sets are words");
const _: () =
    assert!(PATH_DEPTH_MAX * 2 <= PATH_BYTES_MAX, "a path of that depth must be spellable");
const _: () = assert!(
    SELECTOR_REGEXES_MAX * REGEX_AUTOMATON_BYTES_MAX <= REGEX_BYTES_PER_SESSION_MAX,
    "a session must be able to have any one selector"
);
const _: () = assert!(REGEX_BYTES_PER_SESSION_MAX * 16 <= REGEX_BYTES_PER_SHARD_MAX);
const _: () = assert!(REGEX_BYTES_MAX < PATH_BYTES_MAX, "an expression is part of a pattern");
const _: () = assert!(PATH_BYTES_MAX < SELECTOR_BYTES_MAX, "a set may hold several patterns");
