//! How large a schema may be.

/// The most bytes of the text of a schema.
pub const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// The most schemas inside a schema, itself included.
pub const SCHEMA_PARTS_MAX: usize = 4096;
/// The most regular expressions of a schema.
pub const SCHEMA_PATTERNS_MAX: usize = 64;
