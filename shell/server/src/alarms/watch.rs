//! Which alarms are there: begun when their condition has held for long enough, ended when it has been gone for long enough.
//!
//! Pure: the time is passed in. Relies on the table for conditions. Invariant: each alarm that has begun ends once before it
//! begins again.

use std::time::{Duration, Instant};

use super::table::{ALARMS, AlarmRow, Seen};

/// An alarm that is there.
#[derive(Clone)]
pub(crate) struct Present {
    pub(crate) row: &'static AlarmRow,
    /// When it began, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    /// What was found.
    pub(crate) what: String,
}

/// What has become of an alarm.
pub(super) enum Change {
    Begun(Present),
    Ended(Present),
}

/// How it stands with each alarm of the table.
pub(super) struct AlarmWatch(Vec<State>);

enum State {
    Absent,
    /// Its condition holds, since then.
    Coming(Instant),
    There {
        present: Present,
        /// When its condition held last.
        held: Instant,
        /// When what was found was written down.
        told: Instant,
    },
}

impl AlarmWatch {
    pub(super) fn new() -> AlarmWatch {
        AlarmWatch(ALARMS.iter().map(|_| State::Absent).collect())
    }

    /// Looks again; what has changed.
    pub(super) fn look(&mut self, now: Instant, wall_ms: u64, seen: &Seen) -> Vec<Change> {
        let rows = ALARMS.iter().zip(&mut self.0);
        let look = |(row, state): (&'static AlarmRow, &mut State)| {
            let found = row.find(seen, matches!(state, State::There { .. }));
            look_at(row, state, (now, wall_ms), found)
        };
        rows.filter_map(look).collect()
    }

    /// Those that are there, in the order of the table.
    pub(super) fn present(&self) -> Vec<Present> {
        let of = |state: &State| match state {
            State::There { present, .. } => Some(present.clone()),
            State::Absent | State::Coming(_) => None,
        };
        self.0.iter().filter_map(of).collect()
    }
}

fn look_at(
    row: &'static AlarmRow,
    state: &mut State,
    (now, wall_ms): (Instant, u64),
    found: Option<String>,
) -> Option<Change> {
    match (&mut *state, found) {
        (State::There { present, held, told }, Some(what)) => {
            *held = now;
            // Figures change all the time, and each change is a message to those who look.
            if now.saturating_duration_since(*told) >= TOLD_INTERVAL {
                (*told, present.what) = (now, what);
            }
            None
        }
        (State::There { present, held, .. }, None) => {
            let is_over = now.saturating_duration_since(*held) >= Duration::from_secs(row.lingers);
            let ended = is_over.then(|| Change::Ended(present.clone()));
            if is_over {
                *state = State::Absent;
            }
            ended
        }
        (State::Coming(since), Some(what)) => {
            let since = *since;
            begin(row, state, (now, wall_ms, since), what)
        }
        (State::Absent, Some(what)) => begin(row, state, (now, wall_ms, now), what),
        (State::Coming(_) | State::Absent, None) => {
            *state = State::Absent;
            None
        }
    }
}

fn begin(
    row: &'static AlarmRow,
    state: &mut State,
    (now, wall_ms, since): (Instant, u64, Instant),
    what: String,
) -> Option<Change> {
    let held = now.saturating_duration_since(since);
    if held < Duration::from_secs(row.after) {
        *state = State::Coming(since);
        return None;
    }
    let held_ms = u64::try_from(held.as_millis()).unwrap_or(0);
    let present = Present { row, since_ms: wall_ms.saturating_sub(held_ms), what };
    *state = State::There { present: present.clone(), held: now, told: now };
    Some(Change::Begun(present))
}

/// How often what was found is written anew while an alarm is there.
const TOLD_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
