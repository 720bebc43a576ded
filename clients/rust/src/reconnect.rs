//! When and where to connect again.
//!
//! Pure: time is waited for, and random bits are drawn, by the caller. Invariant: pauses grow while nothing
//! succeeds and are random, so that the clients of a server that is started again do not all come at once.

use std::collections::VecDeque;
use std::time::Duration;

use crate::ConnectionError;

/// Where a client connects, one address after the other, and how long it waits between attempts.
///
/// ```
/// use tiderace_client::{ConnectionError, Reconnect};
///
/// let mut reconnect = Reconnect::new(["one.example.org:7800", "two.example.org:7800"]);
/// assert_eq!(reconnect.address(), "one.example.org:7800");
/// // It broke: the next attempt goes to the other one, after a pause for which 42 was drawn.
/// let pause = reconnect.failed(&ConnectionError::Closed, 42);
/// assert!(pause.is_some_and(|pause| pause.as_millis() <= 250));
/// assert_eq!(reconnect.address(), "two.example.org:7800");
/// reconnect.succeeded();
/// ```
#[derive(Clone, Debug)]
pub struct Reconnect {
    /// Where the server has sent its clients; each is tried once.
    elsewhere: VecDeque<String>,
    addresses: Vec<String>,
    at: usize,
    failures: u32,
}

impl Reconnect {
    /// Connects to these addresses in turn, each host and port; without any, to `127.0.0.1:7800`.
    pub fn new(addresses: impl IntoIterator<Item = impl Into<String>>) -> Reconnect {
        let mut addresses: Vec<String> = addresses.into_iter().map(Into::into).collect();
        if addresses.is_empty() {
            addresses.push("127.0.0.1:7800".to_owned());
        }
        Reconnect { elsewhere: VecDeque::new(), addresses, at: 0, failures: 0 }
    }

    /// Where to connect to next.
    pub fn address(&self) -> &str {
        let own = self.addresses.get(self.at);
        self.elsewhere.front().or(own).map_or("", String::as_str)
    }

    /// The server has sent its clients elsewhere (`addresses` of [`ConnectionError::Refused`]): the next attempts go to these,
    /// each host and port, and when none of them answers to the addresses of the beginning. To be told behind
    /// [`Reconnect::failed`]. Whether they are as secure as the client wants is for the caller to see.
    pub fn go_to(&mut self, addresses: impl IntoIterator<Item = impl Into<String>>) {
        self.elsewhere = addresses.into_iter().map(Into::into).collect();
    }

    /// An attempt has failed, or a connection was lost: how long to wait before the next one, which goes to the
    /// next address. `random` is any number that others do not draw as well. `None` if the server has refused
    /// the session for good.
    ///
    /// The first pause is up to 250 ms, each further one up to twice as long, at most 15 s, and never less than
    /// half of it. If the server has named a time within which its clients are to come back, a random part of that is added.
    pub fn failed(&mut self, error: &ConnectionError, random: u64) -> Option<Duration> {
        if !error.may_reconnect() {
            return None;
        }
        if self.elsewhere.pop_front().is_none() {
            self.at = (self.at + 1) % self.addresses.len();
        }
        let most = (FIRST_MS << self.failures.min(DOUBLINGS_MAX)).min(LONGEST_MS);
        self.failures += 1;
        let told = match error {
            ConnectionError::Refused { reconnect_ms: Some(told), .. } => (*told).min(TOLD_MS_MAX),
            _ => 0,
        };
        let half = most / 2;
        Some(Duration::from_millis(half + random % (half + told + 1)))
    }

    /// A session has begun: the next pause is short again.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

const FIRST_MS: u64 = 250;
/// 250 ms doubled six times is 16 s.
const DOUBLINGS_MAX: u32 = 6;
const LONGEST_MS: u64 = 15_000;
/// No server keeps its clients away for longer.
const TOLD_MS_MAX: u64 = 300_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_are_short_again_after_a_success() {
        let mut reconnect = Reconnect::new(["a:1"]);
        let mut pause =
            |random| reconnect.failed(&ConnectionError::Closed, random).map(|it| it.as_millis());
        let longest: Vec<_> =
            [125, 250, 500, 1_000, 2_000, 4_000, 7_500, 7_500].map(&mut pause).into();
        let expected = [250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000].map(Some);
        assert_eq!(longest, expected);
        assert_eq!(pause(0), Some(7_500), "never less than half");
        reconnect.succeeded();
        let first = reconnect.failed(&ConnectionError::Closed, u64::MAX);
        assert!(first.is_some_and(|pause| (125..=250).contains(&pause.as_millis())), "{first:?}");
    }

    #[test]
    fn where_a_server_sends_its_clients_comes_first_and_once() {
        let mut reconnect = Reconnect::new(["a:1", "b:1"]);
        let mut addresses = Vec::new();
        for attempt in 0..5 {
            assert!(reconnect.failed(&ConnectionError::Closed, 0).is_some());
            if attempt == 0 {
                reconnect.go_to(["c:1", "d:1"]);
            }
            addresses.push(reconnect.address().to_owned());
        }
        assert_eq!(addresses, ["c:1", "d:1", "b:1", "a:1", "b:1"]);
    }

    #[test]
    fn a_server_that_stops_spreads_its_clients_and_a_refusal_is_final() {
        let refused = |reconnect_ms| ConnectionError::Refused {
            slug: "shutting-down".to_owned(),
            sentence: "the server stops".to_owned(),
            reconnect_ms,
            addresses: Vec::new(),
        };
        let mut reconnect = Reconnect::new(["a:1", "b:1"]);
        let pause = reconnect.failed(&refused(Some(4_000)), 4_124);
        assert_eq!(pause, Some(Duration::from_millis(4_249)));
        assert_eq!(reconnect.address(), "b:1");
        assert_eq!(reconnect.failed(&refused(None), 1), None);
        assert_eq!(reconnect.address(), "b:1", "nothing was moved");
        assert_eq!(Reconnect::new([""; 0]).address(), "127.0.0.1:7800");
    }
}
