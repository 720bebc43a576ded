//! Connecting again after a connection was lost, here or where the server has sent its clients.
//!
//! Relies on `tiderace_client` for pauses and for what is subscribed to again. Invariant: a client that speaks over TLS goes nowhere
//! without it.

use std::io;
use std::time::{Duration, Instant};

use tiderace_base::UpstreamUrl;
use tiderace_client::ConnectionError;

use super::{At, Client, Target, brief, told};
use crate::cli::error::{ANSWER_TIMEOUT, ClientError};
use crate::cli::output::note;

impl Client {
    /// Connects again after the connection was lost, as often as it takes, and says so on standard error.
    /// Subscriptions are made again; messages of queues that were not acknowledged come again.
    pub(in crate::cli) fn reconnect(
        &mut self,
        lost: ClientError,
        until: Option<Instant>,
    ) -> Result<(), ClientError> {
        self.reconnect_saying(lost, until, &mut note)
    }

    /// The same, for who says so elsewhere.
    pub(in crate::cli) fn reconnect_saying(
        &mut self,
        lost: ClientError,
        until: Option<Instant>,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), ClientError> {
        let mut problem = lost;
        loop {
            let Some(pause) = self.pause(&problem)? else { return Err(problem) };
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let seconds = pause.as_secs_f32();
            say(&format!(
                "{}; connecting to {} in {seconds:.1} s",
                brief(&problem),
                self.reconnect.address()
            ));
            std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
            if left.is_some_and(|left| left <= pause) {
                return Err(problem);
            }
            match self.reopen() {
                Ok(()) => {
                    self.reconnect.succeeded();
                    say("connected again");
                    return Ok(());
                }
                Err(error) => problem = error,
            }
        }
    }

    /// Waits until all that was subscribed to is so again; whether something may be missing of what was published since this
    /// was said to be known ([`Client::knows_all`]).
    pub(in crate::cli) fn has_missed(&mut self) -> Result<bool, ClientError> {
        for subscription in (0..).take(self.paths.len()) {
            while self.connection.client().awaits(subscription) {
                self.receive(ANSWER_TIMEOUT)?;
            }
        }
        Ok(self.has_missed)
    }

    /// What was missed is known in another way.
    pub(in crate::cli) fn knows_all(&mut self) {
        self.has_missed = false;
    }

    /// How long to wait before the next attempt; `None` if there should be none.
    fn pause(&mut self, problem: &ClientError) -> Result<Option<Duration>, ClientError> {
        if problem.is_final() {
            return Ok(None);
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| ClientError::Io(io::Error::other(error)))?;
        let reconnect_ms = match problem {
            ClientError::Ended { reconnect_ms, .. } => *reconnect_ms,
            _ => 0,
        };
        let error = ConnectionError::Refused {
            slug: String::new(),
            sentence: String::new(),
            reconnect_ms: Some(reconnect_ms),
            addresses: Vec::new(),
        };
        let pause = self.reconnect.failed(&error, u64::from_ne_bytes(random));
        if let ClientError::Ended { addresses, .. } = problem {
            self.go_to(addresses);
        }
        Ok(pause)
    }

    /// The server has sent its clients elsewhere. Who speaks over TLS goes nowhere without it.
    fn go_to(&mut self, addresses: &[String]) {
        let Some(tls) = self.targets.first().map(|target| target.tls.clone()) else { return };
        let urls = addresses.iter().filter_map(|address| address.parse::<UpstreamUrl>().ok());
        let targets: Vec<Target> = urls
            .filter(|url| url.is_secure() || !tls.is_asked())
            .map(|url| {
                let tls = if url.is_secure() { tls.clone().asked() } else { tls.clone() };
                Target { at: At::Host { host: url.host().to_owned(), port: url.port() }, tls }
            })
            .collect();
        self.reconnect.go_to(targets.iter().map(Target::authority));
        for target in targets {
            if self.targets.iter().all(|known| known.authority() != target.authority()) {
                self.targets.push(target);
            }
        }
    }

    fn reopen(&mut self) -> Result<(), ClientError> {
        let address = self.reconnect.address().to_owned();
        let target = self.targets.iter().find(|target| target.authority() == address);
        let target = target.ok_or(ClientError::Closed)?;
        self.outstanding.clear();
        self.messages.retain(|message| message.delivery.is_none());
        self.exchanges.clear();
        (self.browsed, self.answer) = (0, None);
        let host = target.host_field();
        let opened = self.connection.reopen(target.channel()?, &host, self.login.auth());
        if let Err(error) = opened {
            return Err(self.connection.stream_mut().explain(told(error)));
        }
        self.connection.stream_mut().settle()
    }
}
