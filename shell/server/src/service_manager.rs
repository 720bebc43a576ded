//! What the server says to the service manager that has started it, such as systemd: that it is ready, reads its
//! configuration again, stops, and is alive; and in one sentence how it stands.
//!
//! Relies on `sd_notify` for the form. Where no manager listens (`NOTIFY_SOCKET` is not set) nothing is said. Not for
//! threads of shards: a manager that is slow to read lets its sender wait.

use std::time::Duration;

use sd_notify::NotifyState;
use sd_notify::NotifyState::{Custom, MonotonicUsec, Ready, Reloading, Status, Stopping, Watchdog};
use tracing::warn;

/// The server takes connections, or has read its configuration again.
pub(crate) fn ready(sentence: &str) {
    tell(&[Ready, Status(&line(sentence))]);
}

/// The server begins to read its configuration again; [`ready`] follows.
pub(crate) fn reloading() {
    // A manager that has asked for it by a signal tells by the time whether this is the answer.
    let now = NotifyState::monotonic_usec_now().unwrap_or(MonotonicUsec(0));
    tell(&[Reloading, now, Status("Reads its configuration again.")]);
}

/// The server stops, which may take so long.
pub(crate) fn stopping(sentence: &str, most: Duration) {
    let most = format!("EXTEND_TIMEOUT_USEC={}", most.as_micros());
    tell(&[Stopping, Custom(&most), Status(&line(sentence))]);
}

/// How the server stands.
pub(crate) fn status(sentence: &str) {
    tell(&[Status(&line(sentence))]);
}

/// The server does its work.
pub(crate) fn alive() {
    tell(&[Watchdog]);
}

/// Within which the manager wants to hear [`alive`] again and again, if it does.
pub(crate) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|interval| !interval.is_zero())
}

fn tell(news: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(news) {
        warn!(
            event = "service-manager-deaf",
            "the service manager could not be told how the server stands: {error}"
        );
    }
}

/// A line of a message ends where a line of text does.
fn line(sentence: &str) -> String {
    sentence.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
