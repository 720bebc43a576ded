//! Every limit of the view language, with the reason for its size.
//!
//! Relies on nothing. Invariant: each loop and each recursion of this crate is bounded by one of
//! these numbers, by the length of the view's text or by the work that an evaluation may do.

/// Longest text of a view, in bytes: a hundred clauses with room to spare.
pub const VIEW_BYTES_MAX: usize = 16 * 1024;

/// Most steps (`where`, `set`, `remove`, `insert`, `patch`, `as`) in one view.
pub const STEPS_MAX: usize = 64;

/// Most operands and operators in all expressions of one view together. A chain of operators is as
/// deep as it is long, so this also bounds recursion: 512 frames of a few hundred bytes.
pub const NODES_MAX: usize = 512;

/// Deepest nesting of brackets, prefix operators and calls that the parser follows.
pub const DEPTH_MAX: usize = 32;

/// Most parts of one path template.
pub const TEMPLATE_PARTS_MAX: usize = 64;

/// Most `<expand(…)>` in one template: each multiplies the number of outputs.
pub const EXPANDS_MAX: usize = 4;

/// Most levels of one pointer.
pub const POINTER_LEVELS_MAX: usize = 16;

/// Most regular expressions in the conditions of one view; each is at most
/// [`REGEX_BYTES_MAX`](tiderace_base::limits::REGEX_BYTES_MAX) long and
/// [`REGEX_AUTOMATON_BYTES_MAX`](tiderace_base::limits::REGEX_AUTOMATON_BYTES_MAX) large.
pub const REGEXES_MAX: usize = 16;

/// Most operations of one `patch`.
pub const PATCH_OPERATIONS_MAX: usize = 64;

/// Most properties after `with`.
pub const PROPERTIES_MAX: usize = 32;

/// Most updates in one window of `throttle`.
pub const THROTTLE_MAX: u32 = 1_000_000;

/// Longest `delay` and longest window of `throttle`: a week, since what waits is held in memory.
pub const SPAN_MS_MAX: u64 = 7 * 24 * 3_600_000;

/// Deepest nesting of a value that is written, so that every reader can take it.
pub const VALUE_DEPTH_MAX: usize = tiderace_value::DEPTH_MAX;

/// What one evaluation may cost. One that would exceed a limit gives no outputs at all: half of the
/// outputs would be a wrong answer, not a bounded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the source's value.
    pub source_bytes_max: usize,
    /// Topics that one source may become.
    pub outputs_max: usize,
    /// Bytes of one output's value.
    pub output_bytes_max: usize,
    /// Bytes of the values and paths of all outputs together.
    pub total_bytes_max: usize,
    /// Values of other topics that may be looked up.
    pub lookups_max: usize,
    /// Units of work: a unit is one step of the evaluation or [`WORK_BYTES`] of a value passed over.
    pub work_max: u32,
}

/// Bytes of a value that are passed over for one unit of work.
pub const WORK_BYTES: usize = 8;

/// Units of work for one piece of a value that is built; bounds memory, too, since a piece has less
/// than a hundred bytes.
pub const WORK_PIECE: u32 = 8;

/// Units of work for a step of [`tiderace_value::Budget`], which are 16 bytes passed over.
pub const WORK_STEP: u32 = 16 / WORK_BYTES as u32;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            source_bytes_max: 1024 * 1024,
            outputs_max: 1000,
            output_bytes_max: 1024 * 1024,
            total_bytes_max: 4 * 1024 * 1024,
            lookups_max: 1000,
            work_max: 500_000,
        }
    }
}
