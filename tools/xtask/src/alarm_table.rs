//! The table of alarms of the program itself, which is no library.

#[path = "../../../shell/server/src/alarms/table.rs"]
#[allow(dead_code, reason = "conditions are for the program")]
mod table;

pub(crate) use table::{ALARMS, AlarmRow};
