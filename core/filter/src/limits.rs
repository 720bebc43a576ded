//! Every limit of the selector language, with the reason for its size.
//!
//! Relies on nothing. Invariant: each loop and each recursion of this crate is bounded by one of
//! these numbers or by the length of one property value.

/// Longest selector text, in bytes. A hundred conditions fit; a STOMP header line is not larger
/// in practice.
pub const TEXT_BYTES_MAX: usize = 4 * 1024;

/// Deepest nesting of parentheses, `NOT` and unary signs. Chains such as `a OR b OR c` do not
/// nest.
///
/// One level costs at most seven stack frames (one for each binding power), so parsing and
/// evaluating stay below 32 × 7 = 224 small frames.
pub const DEPTH_MAX: usize = 32;

/// Most nodes (operands and operators) in one selector.
pub const NODES_MAX: usize = 512;

/// Most entries in one `IN` list. They do not count as nodes.
pub const CHOICES_MAX: usize = 256;

/// Longest property value, in bytes, that `LIKE` looks at. A longer one makes the condition
/// unknown: to match a shortened value would be a wrong answer, not a bounded one.
pub const LIKE_VALUE_BYTES_MAX: usize = 16 * 1024;

/// Most character comparisons that all the `LIKE` conditions of one evaluation may spend
/// together; when they are spent, the remaining conditions are unknown.
///
/// The greedy matcher needs value × pattern steps at worst: 16 Ki × 4 Ki = 64 Mi, a tenth of a
/// second for one hostile message. Ordinary patterns need about one step for each character of
/// the value, so 256 Ki leaves room for 16 conditions on values of the largest size.
pub const LIKE_STEPS_MAX: u32 = 256 * 1024;

/// Longest string, in bytes, that is read as a number. The longest 64-bit integer has 20 bytes
/// and the shortest exact text of a double at most 24.
pub const NUMBER_TEXT_BYTES_MAX: usize = 64;

const _: () = assert!(
    LIKE_STEPS_MAX as usize >= LIKE_VALUE_BYTES_MAX * 2,
    "one plain pattern over the largest value must fit in the budget"
);
const _: () = assert!(CHOICES_MAX * 2 < TEXT_BYTES_MAX, "a full IN list must fit in the text");
