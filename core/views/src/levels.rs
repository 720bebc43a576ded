//! Levels of a path, as `path(…)` names them.

use std::fmt;

use tiderace_topics::Path;

use crate::cursor::Cursor;
use crate::error::{Problem, ViewError};

/// A stretch of a path's levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Levels {
    /// The first, from 0; below zero it counts from the end.
    pub(crate) from: i32,
    /// How many; all that follow if it is not said.
    pub(crate) count: Option<u32>,
}

impl Levels {
    /// Reads what stands behind the word `path`.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Levels, ViewError> {
        const EXPECTED: &str = "the number of a level, from 0";
        cursor.need("(", "`(` and the number of a level")?;
        let start = cursor.next();
        let sign = if cursor.take("-") { -1 } else { 1 };
        let from = i32::try_from(cursor.count(EXPECTED)?).unwrap_or(i32::MAX);
        let mut count = None;
        if cursor.take(",") {
            let levels = cursor.count("how many levels")?;
            count = Some(u32::try_from(levels).unwrap_or(u32::MAX));
        }
        cursor.need(")", "`,` or `)`")?;
        let out_of = |limit| usize::try_from(limit).is_ok_and(|limit: usize| limit > LEVELS_MAX);
        if out_of(i64::from(from)) || out_of(i64::from(count.unwrap_or(1))) || count == Some(0) {
            let problem = Problem::Range { what: "a number of levels", min: "1", max: "64" };
            return Err(cursor.wrong(start, problem));
        }
        Ok(Levels { from: sign * from, count })
    }

    /// The levels of a path; nothing if there are not so many.
    pub(crate) fn of<'p>(&self, path: &'p Path) -> Option<&'p str> {
        let text = path.as_str();
        let all = path.levels().count();
        let from = match usize::try_from(self.from) {
            Ok(from) => from,
            Err(_) => all.checked_sub(usize::try_from(self.from.unsigned_abs()).ok()?)?,
        };
        let count = match self.count {
            Some(count) => usize::try_from(count).ok()?,
            None => all.checked_sub(from)?,
        };
        if count == 0 || from + count > all {
            return None;
        }
        let level_at = |level: usize| match level {
            0 => Some(0),
            _ => text.match_indices('/').nth(level - 1).map(|(at, _)| at + 1),
        };
        let start = level_at(from)?;
        let end = level_at(from + count).map_or(text.len(), |next| next - 1);
        text.get(start..end)
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            Some(count) => write!(f, "path({}, {count})", self.from),
            None => write!(f, "path({})", self.from),
        }
    }
}

/// No path has more levels.
const LEVELS_MAX: usize = 64;
