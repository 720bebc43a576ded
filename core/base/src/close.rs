//! Every way a connection ends: a code, a sentence, a counter.
//!
//! The table is the only place where close codes are defined; protocols, metrics and
//! `docs/close-codes.md` are made from it. Codes are stable: they are never renumbered or reused.

use std::borrow::Cow;

macro_rules! close_codes {
    ($($number:literal $name:ident $slug:literal $websocket:literal $reconnect:literal $meaning:literal;)+) => {
        /// Why a connection or session ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum CloseCode {
            $(#[doc = $meaning] $name = $number,)+
        }

        /// All close codes, in order of their numbers.
        pub const CLOSE_CODES: &[CloseRow] = &[
            $(CloseRow {
                code: CloseCode::$name,
                number: $number,
                slug: $slug,
                websocket: $websocket,
                reconnect: $reconnect,
                meaning: $meaning,
            },)+
        ];

        impl CloseCode {
            /// Its place in [`CLOSE_CODES`], for per-code counters.
            pub fn index(self) -> usize {
                CLOSE_CODES.iter().position(|row| row.code == self).unwrap_or(0)
            }

            /// The stable short name that clients see, such as `login-failed`.
            pub fn slug(self) -> &'static str {
                match self { $(CloseCode::$name => $slug,)+ }
            }

            /// The WebSocket close code (RFC 6455 section 7.4) that stands for it.
            pub fn websocket(self) -> u16 {
                match self { $(CloseCode::$name => $websocket,)+ }
            }
        }
    };
}

/// One line of the table of close codes.
#[derive(Debug)]
pub struct CloseRow {
    /// The code.
    pub code: CloseCode,
    /// Its number in logs and documentation.
    pub number: u16,
    /// Its short name on the wire and in metric labels.
    pub slug: &'static str,
    /// The WebSocket close code sent with it.
    pub websocket: u16,
    /// Whether a client does well to connect again by itself.
    pub reconnect: bool,
    /// What it means, for people.
    pub meaning: &'static str,
}

close_codes! {
    100 Done "done" 1000 false "The client said goodbye and everything it sent was handled.";
    101 PeerGone "peer-gone" 1001 true "The client closed the connection or the network dropped it.";
    102 ShuttingDown "shutting-down" 1012 true "The server is stopping; connect again.";
    103 TransportError "transport-error" 1011 true "The operating system reported an error on the connection.";
    104 InternalError "internal-error" 1011 true "The server failed to handle this connection, by a defect of its own; the log says more.";
    200 FirstByteTimeout "first-byte-timeout" 1008 false "Nothing arrived on a new connection in time.";
    201 HeadTimeout "head-timeout" 1008 false "The head of the HTTP request did not arrive in time.";
    202 LoginTimeout "login-timeout" 1008 false "The client did not log in in time.";
    203 HeartBeatTimeout "heart-beat-timeout" 1008 true "The client promised heart-beats and fell silent.";
    204 IdleTimeout "idle-timeout" 1001 true "The connection did not answer pings.";
    205 FrameTimeout "frame-timeout" 1008 true "A frame or message was begun and not finished in time.";
    206 ResumeTimeout "resume-timeout" 1001 true "The client lost its connection and did not come back in time.";
    207 TlsTimeout "tls-timeout" 1008 true "The TLS handshake was begun and not finished in time.";
    300 UnknownProtocol "unknown-protocol" 1002 false "The first bytes belong to no protocol that is spoken here.";
    301 TlsNotSupported "tls-not-supported" 1002 false "The client began a TLS handshake on a port that speaks plain text only.";
    302 ProtocolNotAllowed "protocol-not-allowed" 1002 false "This listener is pinned to another protocol.";
    303 TlsFailed "tls-failed" 1002 false "The TLS handshake failed, or what came later was no TLS; the log says more.";
    304 TlsRequired "tls-required" 1002 false "The client spoke plain text where only TLS is spoken.";
    310 BadRequest "bad-request" 1002 false "The HTTP request was malformed or not acceptable.";
    311 OriginDenied "origin-denied" 1008 false "The page's origin is not on the list of allowed origins.";
    312 HostDenied "host-denied" 1008 false "The host in the request is none of the server's names (option `server.hosts`).";
    320 BadFrame "bad-frame" 1002 false "A frame was malformed.";
    321 BadText "bad-text" 1007 false "Text was not valid UTF-8.";
    322 FrameTooLarge "frame-too-large" 1009 false "A message, frame or header was larger than the limit.";
    323 UnexpectedFrame "unexpected-frame" 1002 false "A frame came at a time when its protocol does not allow it.";
    324 UnsupportedVersion "unsupported-version" 1002 false "Client and server share no version of the protocol.";
    325 BadHeader "bad-header" 1002 false "A header is missing, repeated or has a value that is not allowed.";
    326 TooManyFaults "too-many-faults" 1002 false "More frames broke the rules of their protocol than are borne.";
    330 Http2Error "http2-error" 1002 false "The HTTP/2 connection or stream broke the rules of RFC 9113; the reason names the error.";
    331 Http2Flood "http2-flood" 1008 false "The client sent more HTTP/2 control frames, resets, empty frames or header fragments than the limits of the section http2 allow.";
    400 LoginFailed "login-failed" 1008 false "Name, password or token was not accepted.";
    401 NotAuthorised "not-authorised" 1008 false "The identity may not do that there.";
    402 LoginRequired "login-required" 1008 false "The server wants credentials.";
    403 TooManyLogins "too-many-logins" 1008 true "Too many failed logins; wait before the next.";
    410 AliasTaken "alias-taken" 1008 false "A session that lives is known by this token already; come back to it, or choose another.";
    411 BadAlias "bad-alias" 1008 false "The token by which the client wants to come back is too short to be safe, or too long.";
    500 BadDestination "bad-destination" 1008 false "The destination is malformed, too long, too deep or of an unknown kind.";
    501 BadSelector "bad-selector" 1008 false "The selector could not be understood.";
    502 UnknownSubscription "unknown-subscription" 1008 false "No subscription of that id exists.";
    503 DuplicateSubscription "duplicate-subscription" 1008 false "A subscription of that id exists already.";
    504 UnknownTransaction "unknown-transaction" 1008 false "No transaction of that name is open.";
    505 DuplicateTransaction "duplicate-transaction" 1008 false "A transaction of that name is open already.";
    506 UnknownAck "unknown-ack" 1008 false "The acknowledged message is not waiting for an acknowledgement.";
    507 NotOwner "not-owner" 1008 false "Only the connection that created a temporary destination may consume from it.";
    510 TopicExists "topic-exists" 1008 false "The topic is there already, with another specification.";
    511 TopicUnknown "topic-unknown" 1008 false "There is no such topic, or it has no value.";
    512 BadSpecification "bad-specification" 1008 false "The topic's specification could not be understood or contradicts itself.";
    513 BadValue "bad-value" 1008 false "The value is not of the topic's type or does not fit its schema.";
    514 BadPatch "bad-patch" 1008 false "The patch or delta could not be applied to the topic's value.";
    515 ConditionFailed "condition-failed" 1008 false "What the update depends on does not hold, so nothing was changed.";
    516 TopicClaimed "topic-claimed" 1008 false "Another session is the topic's only publisher.";
    517 TopicReadOnly "topic-read-only" 1008 false "The topic is kept by the server, for instance by a view; nobody else publishes to it.";
    518 LockHeld "lock-held" 1013 true "Another session holds the lock.";
    519 LockNotHeld "lock-not-held" 1008 false "The session does not hold the lock.";
    520 BadView "bad-view" 1008 false "The view could not be understood; the sentence points at the place.";
    521 ViewUnknown "view-unknown" 1008 false "There is no view of that name.";
    522 BadOperation "bad-operation" 1008 false "The operation could not be understood; the sentence says what is missing or not known.";
    600 TooManyConnections "too-many-connections" 1013 true "The server or the client's address has reached its limit of connections.";
    601 TooManySubscriptions "too-many-subscriptions" 1008 false "The session has reached its limit of subscriptions.";
    602 TransactionTooLarge "transaction-too-large" 1009 false "Open transactions hold more bytes, frames or names than the limit.";
    603 SlowConsumer "slow-consumer" 1013 true "The client did not read its messages fast enough and the topic's policy is to disconnect.";
    604 TooManyReceipts "too-many-receipts" 1008 false "More answers were asked for than the client reads.";
    605 MemoryFull "memory-full" 1013 true "The server's memory for messages is used up; remove retained values or topics, read what waits, or raise memory.messages_bytes_max.";
    606 TooManyTopics "too-many-topics" 1013 true "The server has reached its limit of topics, views, locks or the like.";
    607 TooMuchWork "too-much-work" 1008 false "What was asked takes more steps or memory than one request may.";
    608 StoreUnavailable "store-unavailable" 1013 true "The store cannot take persistent messages now: the disk is full or has failed.";
    609 TooManyDetached "too-many-detached" 1013 true "The server keeps as many sessions for clients that may come back, or as many of their bytes, as it is allowed to.";
    610 TooManySigns "too-many-signs" 1008 false "Signs of life, or the like, came more often than they are of use.";
    700 NoResponder "no-responder" 1013 true "Nobody serves what was called.";
    701 ServiceBusy "service-busy" 1013 true "Those who serve have no room and too many calls wait already; call again later.";
    702 CallTimeout "call-timeout" 1013 true "The other side was silent for longer than the caller's patience.";
    703 ResponderGone "responder-gone" 1013 true "The session that answered the call has ended or no longer serves.";
    704 CallerGone "caller-gone" 1001 false "The session that had called has ended.";
    705 CallCancelled "call-cancelled" 1000 false "The caller has given the call up.";
    706 DuplicateCall "duplicate-call" 1008 false "A call of that number is open already.";
    707 TooManyCalls "too-many-calls" 1013 true "The session has reached its limit of open calls, or of their bytes that wait.";
    708 CallFailed "call-failed" 1011 false "Whoever serves could not do what was asked; the sentence says why.";
}

/// The end of a connection: a code for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", code.slug())]
pub struct Close {
    /// Which of the known ends it is.
    pub code: CloseCode,
    /// What happened, where, and what to do; may be shown to the client.
    pub reason: Cow<'static, str>,
}

impl Close {
    /// An end with a reason of its own.
    pub fn new(code: CloseCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Close { code, reason: reason.into() }
    }
}

impl From<CloseCode> for Close {
    fn from(code: CloseCode) -> Self {
        let reason = CLOSE_CODES.get(code.index()).map_or("", |row| row.meaning);
        Close { code, reason: Cow::Borrowed(reason) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_slugs_are_unique_and_sorted() {
        for pair in CLOSE_CODES.windows(2) {
            let [a, b] = pair else { unreachable!() };
            assert!(a.number < b.number, "{} before {}", a.slug, b.slug);
            assert!(CLOSE_CODES.iter().filter(|row| row.slug == a.slug).count() == 1);
        }
    }

    #[test]
    fn every_code_finds_its_own_row() {
        for (index, row) in CLOSE_CODES.iter().enumerate() {
            assert_eq!(row.code.index(), index);
            assert_eq!(row.code.slug(), row.slug);
            assert_eq!(Close::from(row.code).reason, row.meaning);
        }
    }
}
