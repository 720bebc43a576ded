//! What a session knows, and what all its duties need of that.
//!
//! Relies on the tables beside it, each of which keeps what belongs to one duty. Invariant: what is rarely used costs
//! eight bytes.

use std::sync::Arc;

use tiderace_base::{Close, Now};
use tiderace_wire::{Bases, Commands, Destination, SubscriptionKey, TemporaryName, Token};

use super::heart_beat::HeartBeat;
use super::receipts::Receipts;
use super::settling::Settling;
use super::subscription::Subscription;
use super::subscriptions::Subscriptions;
use super::transactions::Transactions;
use crate::frame::{Limits, Pending};
use crate::header::{Headers, append_value};
use crate::options::StompOptions;
use crate::server_frame;
use crate::version::Version;

/// Where the conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Waiting for CONNECT.
    Fresh,
    /// The broker is looking at the credentials.
    LoggingIn,
    /// In order.
    Established,
    /// DISCONNECT has come; the last receipts are on their way.
    Leaving,
}

/// One client's conversation in STOMP.
pub(crate) struct StompSession {
    pub(super) options: Arc<StompOptions>,
    pub(super) subscriptions: Subscriptions,
    pub(super) cold: Option<Box<ColdState>>,
    pub(super) partial: Option<Box<Partial>>,
    pub(super) heart_beat: HeartBeat,
    /// The session's name in the paths of its temporary destinations.
    pub(super) temporary: TemporaryName,
    pub(super) state: State,
    pub(super) version: Version,
    /// Whether the client gave credentials.
    pub(super) named: bool,
}

const _: () = assert!(size_of::<StompSession>() <= 112, "there may be millions of idle ones");

/// What is known about input that was not consumed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Partial {
    pub(super) pending: Pending,
    /// Bytes of the last input that were not consumed: more than these are news.
    pub(super) left: u32,
}

/// The destination of the last SEND: producers mostly send to the same one again.
pub(super) struct LastDestination {
    pub(super) spelling: Box<[u8]>,
    pub(super) destination: Destination,
}

/// What most sessions never need.
#[derive(Default)]
pub(super) struct ColdState {
    /// Rises with every message that has to be acknowledged.
    pub(super) tags: u64,
    /// The last token given out.
    pub(super) tokens: Token,
    /// Where the last SEND went.
    pub(super) last: Option<Box<LastDestination>>,
    pub(super) receipts: Receipts,
    pub(super) transactions: Transactions,
    pub(super) settling: Settling,
    /// What subscriptions with deltas were sent last.
    pub(super) bases: Option<Box<Bases>>,
    /// What ended the session, as lines of ERROR: the receipt of the frame, or a subscription.
    pub(super) blamed: Option<Box<[u8]>>,
}

impl StompSession {
    /// Begins a conversation.
    pub(crate) fn new(
        options: Arc<StompOptions>,
        now: Now,
        temporary: TemporaryName,
    ) -> StompSession {
        StompSession {
            heart_beat: HeartBeat::until_login(now.time + options.login_timeout),
            options,
            subscriptions: Subscriptions::default(),
            cold: None,
            partial: None,
            temporary,
            state: State::Fresh,
            version: Version::V10,
            named: false,
        }
    }

    /// What most sessions never need, made if there is none.
    #[inline]
    pub(super) fn cold(&mut self) -> &mut ColdState {
        self.cold.get_or_insert_default()
    }

    /// Whether input has to wait for the broker.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.state == State::LoggingIn
            || self.cold.as_ref().is_some_and(|cold| cold.receipts.is_full())
    }

    /// What a frame may have, which is less before the login.
    #[inline]
    pub(super) fn limits(&self) -> Limits {
        let options = &*self.options;
        let established = self.state != State::Fresh;
        let preauth = if established { usize::MAX } else { options.preauth_bytes_max };
        Limits {
            header_bytes_max: options.header_bytes_max.min(preauth),
            headers_max: options.headers_max,
            body_bytes_max: options.message_bytes_max.min(preauth),
            large_body_bytes_max: match self.state {
                State::Established => options.large_message_bytes_max,
                _ => 0,
            },
        }
    }

    /// Remembers the receipt of the frame to blame, for the ERROR frame.
    #[cold]
    pub(super) fn blame(&mut self, headers: Headers<'_>, close: Close) -> Close {
        if headers.version != self.version || self.state == State::Fresh {
            return close;
        }
        if let Some(receipt) = headers.find_raw("receipt")
            && let Ok(text) = headers.decode(receipt)
        {
            // Encoded anew: a CONNECT's headers have no escapes, the answer's have.
            let mut encoded = Vec::new();
            append_value(&mut encoded, self.version, &text);
            self.cold().blamed = Some(server_frame::receipt_line(&encoded));
        }
        close
    }

    /// Hands over what was collected during a call.
    #[inline]
    pub(super) fn flush(&mut self, commands: &mut Commands) {
        if let Some(cold) = &mut self.cold {
            cold.settling.flush(commands);
        }
    }

    /// The subscription of that key, for messages on their way.
    #[inline]
    pub(super) fn subscription(&self, key: SubscriptionKey) -> Option<&Subscription> {
        self.subscriptions.get(key)
    }
}
