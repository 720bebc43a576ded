//! What a configuration is made from.

use std::io;
use std::path::Path;

/// Everything a configuration is made from, in increasing precedence: default, file, environment, flags.
pub struct Sources<'a> {
    /// The file, if one was named.
    pub file: Option<FileSource>,
    /// The environment; variables without `TIDERACE_` and `__` in their names are left alone.
    pub environment: Vec<(String, String)>,
    /// Options set on the command line.
    pub flags: Vec<FlagSource>,
    /// Lists of tables that are set on the command line, in front of those of the file.
    pub tables: Vec<FlagTable>,
    /// Development mode: listens on more ports of this machine by default.
    pub development: bool,
    /// Reads the file that a `file:` secret names.
    pub read_secret: &'a dyn Fn(&Path) -> io::Result<String>,
}

/// The text of a configuration file.
#[derive(Debug, Clone)]
pub struct FileSource {
    /// Its name, for messages.
    pub name: String,
    /// Its content: TOML.
    pub text: String,
}

/// A `[[section]]` set on the command line.
#[derive(Debug, Clone)]
pub struct FlagTable {
    /// The name of the section, such as `upstream`.
    pub section: &'static str,
    /// Its options.
    pub settings: Vec<FlagSource>,
}

/// One option set on the command line.
#[derive(Debug, Clone)]
pub struct FlagSource {
    /// As typed, for messages: `--shards` or `--set`.
    pub flag: String,
    /// The key of the option, such as `server.shards`.
    pub key: String,
    /// The value as typed.
    pub value: String,
}
