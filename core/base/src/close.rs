//! Every error and every end: a code, what ends by it, how protocols say it, a sentence, a counter.
//!
//! The table is the only place where codes are defined, and the only one that says what a code means to
//! a protocol: protocols look up what ends ([`Close::answered`]), the class of the error, the status of
//! HTTP and the code of WebSocket; metrics and `docs/close-codes.md` are made from it. Codes are stable:
//! they are never renumbered or reused.

use std::borrow::Cow;

use crate::Addresses;

/// What ends by an error, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// What was asked for, which is refused, and nothing else, if its protocol can answer that alone.
    /// STOMP cannot: its ERROR frame ends the connection. Nor can any protocol if the bytes belong to
    /// nothing that was asked for: then the session ends.
    Operation,
    /// The connection. A session whose protocol lets clients come back waits for its client.
    Connection,
    /// The session, and the connection with it.
    Session,
}

/// What an error says about the request that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The request makes no sense and never will.
    Invalid,
    /// The request asks for something that the server cannot do.
    Unsupported,
    /// The request was not begun; the same request may succeed later.
    Rejected,
    /// The request was given up by the side that made it.
    Cancelled,
    /// The request made sense and could not be done.
    Failed,
}

macro_rules! close_codes {
    ($($number:literal $name:ident $slug:literal $severity:ident $class:ident $websocket:literal
        $http:literal $reconnect:literal $meaning:literal $remedy:literal;)+) => {
        /// Why a request was refused, or a connection or session ended.
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
                severity: Severity::$severity,
                class: ErrorClass::$class,
                websocket: $websocket,
                http: $http,
                reconnect: $reconnect,
                meaning: $meaning,
                remedy: $remedy,
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

            /// The least that ends by it.
            pub fn severity(self) -> Severity {
                match self { $(CloseCode::$name => Severity::$severity,)+ }
            }

            /// What it says about the request that it answers.
            pub fn class(self) -> ErrorClass {
                match self { $(CloseCode::$name => ErrorClass::$class,)+ }
            }

            /// The WebSocket close code (RFC 6455 section 7.4) that stands for it.
            pub fn websocket(self) -> u16 {
                match self { $(CloseCode::$name => $websocket,)+ }
            }

            /// The status (RFC 9110 section 15) of a request by HTTP that is refused with it.
            pub fn http(self) -> u16 {
                match self { $(CloseCode::$name => $http,)+ }
            }

            /// Whether a client does well to try again by itself.
            pub fn reconnects(self) -> bool {
                match self { $(CloseCode::$name => $reconnect,)+ }
            }

            /// The code of that number, if there is one.
            pub fn numbered(number: u16) -> Option<CloseCode> {
                match number { $($number => Some(CloseCode::$name),)+ _ => None }
            }
        }
    };
}

/// One line of the table of close codes.
#[derive(Debug)]
pub struct CloseRow {
    /// The code.
    pub code: CloseCode,
    /// Its number in logs, documentation and the native protocol.
    pub number: u16,
    /// Its short name on the wire and in metric labels.
    pub slug: &'static str,
    /// The least that ends by it.
    pub severity: Severity,
    /// What it says about the request that it answers.
    pub class: ErrorClass,
    /// The WebSocket close code sent with it.
    pub websocket: u16,
    /// The status of HTTP sent with it.
    pub http: u16,
    /// Whether a client does well to try again by itself: to connect, or to ask for the same.
    pub reconnect: bool,
    /// What it means, for people.
    pub meaning: &'static str,
    /// What to do about it, for people.
    pub remedy: &'static str,
}

close_codes! {
    100 Done "done" Session Failed 1000 400 false
        "The client said goodbye and everything it sent was handled."
        "Nothing; this is how a session ends as its client wants.";
    101 PeerGone "peer-gone" Connection Failed 1001 400 true
        "The client closed the connection or the network dropped it."
        "Connect again and go on with the session, if its protocol can.";
    102 ShuttingDown "shutting-down" Session Rejected 1012 503 true
        "The server is stopping; connect again."
        "Connect again after a pause; another node may answer.";
    103 TransportError "transport-error" Connection Failed 1011 500 true
        "The operating system reported an error on the connection."
        "Connect again; look at the network if it happens often.";
    104 InternalError "internal-error" Session Failed 1011 500 true
        "The server failed to handle this connection, by a defect of its own; the log says more."
        "Report it with the server's log of that moment.";
    105 Draining "draining" Session Rejected 1012 503 true
        "The server sends its clients to other servers; connect again."
        "Connect again: to an address that comes with it, or as before, which leads to another server.";
    106 UpstreamRestarted "upstream-restarted" Session Failed 1012 503 true
        "The server from which topics come has begun anew without what it had, so their versions begin anew."
        "Connect again; what was known of these topics comes anew.";
    107 Kicked "kicked" Session Failed 1008 403 false
        "An operator has ended the session."
        "Ask the operator; the sentence may say why. Nothing keeps a client from connecting again.";
    200 FirstByteTimeout "first-byte-timeout" Connection Failed 1008 400 false
        "Nothing arrived on a new connection in time."
        "Send the first bytes at once, or raise the deadline in the section `deadlines`.";
    201 HeadTimeout "head-timeout" Connection Failed 1008 400 false
        "The head of the HTTP request did not arrive in time."
        "Send the whole head at once.";
    202 LoginTimeout "login-timeout" Connection Invalid 1008 400 false
        "The client did not log in in time."
        "Log in as the first thing on a new connection.";
    203 HeartBeatTimeout "heart-beat-timeout" Connection Failed 1008 400 true
        "The client promised heart-beats and fell silent."
        "Send heart-beats as promised, or promise fewer.";
    204 IdleTimeout "idle-timeout" Connection Failed 1001 400 true
        "The connection did not answer pings."
        "Answer pings; connect again after the network was lost.";
    205 FrameTimeout "frame-timeout" Connection Invalid 1008 400 true
        "A frame or message was begun and not finished in time."
        "Send what was begun to its end, without pauses.";
    206 ResumeTimeout "resume-timeout" Session Failed 1001 400 true
        "The client lost its connection and did not come back in time."
        "Begin a new session, and come back sooner next time.";
    207 TlsTimeout "tls-timeout" Connection Failed 1008 400 true
        "The TLS handshake was begun and not finished in time."
        "Finish the handshake without pauses; look at the network.";
    300 UnknownProtocol "unknown-protocol" Connection Invalid 1002 400 false
        "The first bytes belong to no protocol that is spoken here."
        "Speak one of the protocols in the README, on the port that is meant for it.";
    301 TlsNotSupported "tls-not-supported" Connection Invalid 1002 400 false
        "The client began a TLS handshake on a port that speaks plain text only."
        "Use the plain scheme (`tcp`, `ws`, `http`), or configure TLS on the server.";
    302 ProtocolNotAllowed "protocol-not-allowed" Connection Invalid 1002 400 false
        "This listener is pinned to another protocol."
        "Use the port of a listener that takes this protocol.";
    303 TlsFailed "tls-failed" Connection Failed 1002 400 false
        "The TLS handshake failed, or what came later was no TLS; the log says more."
        "Check versions, certificates and names on both sides.";
    304 TlsRequired "tls-required" Connection Invalid 1002 400 false
        "The client spoke plain text where only TLS is spoken."
        "Use the TLS scheme (`wss`, `https`).";
    305 ProxyNotTrusted "proxy-not-trusted" Connection Invalid 1008 400 false
        "The connection began with a header of the PROXY protocol, which is not taken from this address."
        "Name the proxy in the option `proxy.trusted` and set `proxy.protocol`, or have it send no such header.";
    306 ProxyHeaderMissing "proxy-header-missing" Connection Invalid 1008 400 false
        "The connection of a trusted proxy did not begin with a header of the PROXY protocol, which `proxy.protocol` requires."
        "Have the proxy send the header, or set `proxy.protocol` to `accept`.";
    307 ProxyHeaderInvalid "proxy-header-invalid" Connection Invalid 1002 400 false
        "The header of the PROXY protocol was malformed, too long, or not the first thing on its connection."
        "Correct the proxy; the sentence says what is wrong with the header.";
    310 BadRequest "bad-request" Operation Invalid 1002 400 false
        "The HTTP request was malformed or not acceptable."
        "Correct the request; the sentence names the place.";
    311 OriginDenied "origin-denied" Connection Failed 1008 403 false
        "The page's origin is not on the list of allowed origins."
        "Add the page's origin to the option `server.origins` of the server.";
    312 HostDenied "host-denied" Connection Failed 1008 421 false
        "The host in the request is none of the server's names (option `server.hosts`)."
        "Use one of the server's names, or add this one to `server.hosts`.";
    313 ForwardedInvalid "forwarded-invalid" Operation Invalid 1002 400 false
        "A trusted proxy handed a request on without naming its client by an address."
        "Have the proxy write the client's address into the field that `proxy.header` names.";
    320 BadFrame "bad-frame" Operation Invalid 1002 400 false
        "A frame was malformed."
        "Correct the client; the sentence names the frame and the place.";
    321 BadText "bad-text" Operation Invalid 1007 400 false
        "Text was not valid UTF-8."
        "Send text as UTF-8.";
    322 FrameTooLarge "frame-too-large" Operation Invalid 1009 413 false
        "A message, frame or header was larger than the limit."
        "Send less at once, or raise the limit that the sentence names.";
    323 UnexpectedFrame "unexpected-frame" Operation Invalid 1002 400 false
        "A frame came at a time when its protocol does not allow it."
        "Send it when its protocol allows it.";
    324 UnsupportedVersion "unsupported-version" Session Unsupported 1002 400 false
        "Client and server share no version of the protocol."
        "Use a version that the server speaks; the answer names them.";
    325 BadHeader "bad-header" Operation Invalid 1002 400 false
        "A header is missing, repeated or has a value that is not allowed."
        "Correct the header that the sentence names.";
    326 TooManyFaults "too-many-faults" Session Failed 1002 400 false
        "More frames broke the rules of their protocol than are borne."
        "Correct the client; the sentence names the last rule broken.";
    330 Http2Error "http2-error" Connection Failed 1002 400 false
        "The HTTP/2 connection or stream broke the rules of RFC 9113; the reason names the error."
        "Correct the client's HTTP/2.";
    331 Http2Flood "http2-flood" Connection Failed 1008 400 false
        "The client sent more HTTP/2 control frames, resets, empty frames or header fragments than the limits of the section http2 allow."
        "Send fewer control frames, or raise the limits of the section `http2`.";
    400 LoginFailed "login-failed" Operation Failed 1008 401 false
        "Name, password or token was not accepted."
        "Check name, password or token.";
    401 NotAuthorised "not-authorised" Operation Failed 1008 403 false
        "The identity may not do that there."
        "Ask for a rule that allows it, or use another destination.";
    402 LoginRequired "login-required" Operation Failed 1008 401 false
        "The server wants credentials."
        "Log in with a name and password, or a token.";
    403 TooManyLogins "too-many-logins" Operation Failed 1008 429 true
        "Too many failed logins; wait before the next."
        "Wait, then log in with credentials that are right.";
    404 WrongHost "wrong-host" Operation Failed 1008 403 false
        "The client named no virtual host of the server, or another one than the one its user is bound to."
        "Connect by the name of the virtual host that the user belongs to.";
    405 LoginExpired "login-expired" Session Failed 1008 401 true
        "The credentials that the client logged in with have ceased to be valid, and it has not shown others in time."
        "Connect again with a new token, or show one before the old expires, where the protocol has a way to.";
    406 UpstreamCircle "upstream-circle" Session Failed 1008 400 false
        "A node that connects as an edge stands above its upstream, or is too many connections away from a source: what it passes on would go round."
        "Correct the upstreams of the nodes that the sentence names, and give each node a name of its own.";
    407 LoginUnavailable "login-unavailable" Operation Rejected 1013 503 true
        "The server that knows who may log in does not answer."
        "Try again in a few seconds; the server's log says what it got instead of an answer.";
    408 Blocked "blocked" Operation Failed 1008 403 false
        "An operator keeps this client out for a while, by who it is or by its address."
        "Ask the operator; the sentence may say why.";
    409 ManagedElsewhere "managed-elsewhere" Operation Failed 1008 403 false
        "The server is looked after elsewhere: it answers this only on its listeners for management and on its admin socket."
        "Ask on the server's machine with `-s unix:`, or at a listener with `management = true`.";
    410 AliasTaken "alias-taken" Session Rejected 1008 400 false
        "A session that lives is known by this token already; come back to it, or choose another."
        "Come back to that session, or choose another token.";
    411 BadAlias "bad-alias" Session Rejected 1008 400 false
        "The token by which the client wants to come back is too short to be safe, or too long."
        "Choose a token of the length that the sentence names.";
    500 BadDestination "bad-destination" Operation Invalid 1008 400 false
        "The destination is malformed, too long, too deep or of an unknown kind."
        "Correct the name; the sentence says what is wrong with it.";
    501 BadSelector "bad-selector" Operation Invalid 1008 400 false
        "The selector could not be understood."
        "Correct the selector; the sentence names the place.";
    502 UnknownSubscription "unknown-subscription" Operation Failed 1008 400 false
        "No subscription of that id exists."
        "Use the id of a subscription that is there.";
    503 DuplicateSubscription "duplicate-subscription" Operation Failed 1008 400 false
        "A subscription of that id exists already."
        "Use another id, or end that subscription first.";
    504 UnknownTransaction "unknown-transaction" Operation Failed 1008 400 false
        "No transaction of that name is open."
        "Begin the transaction first.";
    505 DuplicateTransaction "duplicate-transaction" Operation Failed 1008 400 false
        "A transaction of that name is open already."
        "Use another name, or end that transaction first.";
    506 UnknownAck "unknown-ack" Operation Failed 1008 400 false
        "The acknowledged message is not waiting for an acknowledgement."
        "Acknowledge each message once, on the subscription that brought it.";
    507 NotOwner "not-owner" Operation Failed 1008 403 false
        "Only the connection that created a temporary destination may consume from it."
        "Consume from temporary destinations of this session only.";
    510 TopicExists "topic-exists" Operation Failed 1008 409 false
        "The topic is there already, with another specification."
        "Use the specification that is there, or remove the topic first.";
    511 TopicUnknown "topic-unknown" Operation Failed 1008 404 false
        "There is no such topic, or it has no value."
        "Create the topic or publish to it first.";
    512 BadSpecification "bad-specification" Operation Invalid 1008 400 false
        "The topic's specification could not be understood or contradicts itself."
        "Correct the specification; the sentence names the member.";
    513 BadValue "bad-value" Operation Failed 1008 422 false
        "The value is not of the topic's type or does not fit its schema."
        "Send a value of the topic's type that fits its schema.";
    514 BadPatch "bad-patch" Operation Failed 1008 422 false
        "The patch or delta could not be applied to the topic's value."
        "Read the present value and make the change anew.";
    515 ConditionFailed "condition-failed" Operation Failed 1008 412 false
        "What the update depends on does not hold, so nothing was changed."
        "Read the present value and decide anew.";
    516 TopicClaimed "topic-claimed" Operation Failed 1008 409 false
        "Another session is the topic's only publisher."
        "Wait until the other session gives the topic up.";
    517 TopicReadOnly "topic-read-only" Operation Failed 1008 403 false
        "The topic is kept by the server, for instance by a view; nobody else publishes to it."
        "Publish to the topics that it is made from.";
    518 LockHeld "lock-held" Operation Rejected 1013 409 true
        "Another session holds the lock."
        "Try again later, or wait for the lock longer.";
    519 LockNotHeld "lock-not-held" Operation Failed 1008 400 false
        "The session does not hold the lock."
        "Take the lock first.";
    520 BadView "bad-view" Operation Invalid 1008 400 false
        "The view could not be understood; the sentence points at the place."
        "Correct the view; the sentence names the place.";
    521 ViewUnknown "view-unknown" Operation Failed 1008 404 false
        "There is no view of that name."
        "List the views, and use a name that is there.";
    522 BadOperation "bad-operation" Operation Invalid 1008 400 false
        "The operation could not be understood; the sentence says what is missing or not known."
        "Correct the operation; the sentence names the member.";
    523 QueueUnknown "queue-unknown" Operation Failed 1008 404 false
        "There is no queue of that name."
        "List the queues, and use a name that is there; a queue without messages and consumers is removed after a while.";
    524 BadSchedule "bad-schedule" Operation Invalid 1008 400 false
        "The time at which a message is to be delivered makes no sense, or is further away than its queue allows."
        "Correct the delay, or raise `queues.delay_max`.";
    525 BadGroup "bad-group" Operation Invalid 1008 400 false
        "The group of a message has no name, or one that is too long."
        "Use a shorter name, or leave it out.";
    526 SubscriptionInUse "subscription-in-use" Operation Failed 1008 409 false
        "The durable subscription has consumers, or stands in the configuration."
        "End its consumers first, or change the configuration.";
    527 BadPriority "bad-priority" Operation Invalid 1008 400 false
        "The priority of a message is no whole number from 0 to 9."
        "Use one of these, 9 being the most urgent, or leave it out, which means 4.";
    528 TopicElsewhere "topic-elsewhere" Operation Unsupported 1008 403 false
        "The topic comes from another server, and this one only passes it on."
        "Publish and operate at the server that the sentence names, and subscribe here.";
    529 OutcomeUnknown "outcome-unknown" Operation Failed 1013 504 false
        "The server that keeps the topic was lost before it answered: what was asked for may have been done, or not."
        "Look at what is there now before asking again, or ask in a way that may be done twice.";
    530 BodyTooLarge "body-too-large" Operation Failed 1009 413 false
        "A body of that size may not go there, or not in that way."
        "Send a smaller body, or send it to a destination and with marks that allow it; the sentence says what does not.";
    531 UpstreamAway "upstream-away" Operation Rejected 1013 503 true
        "The server that keeps the topic cannot be reached, or has too much to do: what was asked for was not done."
        "Try again later.";
    534 QueueElsewhere "queue-elsewhere" Operation Unsupported 1008 403 false
        "The queue lives at another server, and what was asked for is not passed on to that one."
        "Connect to the server that the sentence names for it.";
    535 DeliveryLost "delivery-lost" Operation Failed 1008 409 false
        "The messages were given before the connection to the server that keeps their queue was lost: they are in the queue again, and what was said of them was not done."
        "Expect them again, marked as redelivered, and settle those.";
    536 BadConfiguration "bad-configuration" Operation Failed 1008 422 false
        "The configuration that the server was to read again has a problem: nothing was changed."
        "Mend what the sentence names, and try again; `tiderace config check` looks at it beforehand.";
    600 TooManyConnections "too-many-connections" Operation Rejected 1013 503 true
        "The server, the client's address or who it is logged in as has reached its limit of connections."
        "Close connections that are not needed, or raise the limit.";
    601 TooManySubscriptions "too-many-subscriptions" Operation Rejected 1008 429 false
        "The session, or who it is logged in as, has reached its limit of subscriptions."
        "End subscriptions that are not needed, or raise the limit.";
    602 TransactionTooLarge "transaction-too-large" Operation Failed 1009 413 false
        "Open transactions hold more bytes, frames or names than the limit."
        "Commit more often.";
    603 SlowConsumer "slow-consumer" Session Failed 1013 503 true
        "The client did not read its messages fast enough and the topic's policy is to disconnect."
        "Read faster, subscribe to less, or choose another policy for the topic.";
    604 TooManyReceipts "too-many-receipts" Operation Rejected 1008 429 false
        "More answers were asked for than the client reads."
        "Wait for answers before asking for more.";
    605 MemoryFull "memory-full" Operation Rejected 1013 503 true
        "The server's memory for messages is used up; remove retained values or topics, read what waits, or raise memory.messages_bytes_max."
        "Try again later; the operator frees memory or raises `memory.messages_bytes_max`.";
    606 TooManyTopics "too-many-topics" Operation Rejected 1013 503 true
        "The server has reached its limit of topics, views, locks or the like."
        "Remove what is not needed, or raise the limit.";
    607 TooMuchWork "too-much-work" Operation Failed 1008 400 false
        "What was asked takes more steps or memory than one request may."
        "Ask for less at once.";
    608 StoreUnavailable "store-unavailable" Operation Rejected 1013 503 true
        "The store cannot take persistent messages now: the disk is full or has failed."
        "Try again later; the operator looks at the disk.";
    609 TooManyDetached "too-many-detached" Session Rejected 1013 400 true
        "The server keeps as many sessions for clients that may come back, or as many of their bytes, as it is allowed to."
        "Begin a session that does not wait for its client, or come back later.";
    610 TooManySigns "too-many-signs" Session Failed 1008 400 false
        "Signs of life, or the like, came more often than they are of use."
        "Send them at the interval that was agreed on.";
    611 PeerLost "peer-lost" Operation Failed 1013 503 true
        "The part of the server that was to answer has been lost; whether it did what was asked is not known."
        "Ask again, if it may be done twice.";
    612 NoStore "no-store" Operation Unsupported 1008 422 false
        "The message is persistent and the server has no store that could keep it."
        "Send it without the mark, or set the server's option `store.directory`.";
    613 QueueFull "queue-full" Operation Rejected 1013 503 true
        "The queue has as many messages or bytes as it may hold."
        "Try again when its consumers have taken some, or raise `queues.messages_max`, `queues.memory_bytes_max` or, with a store, `queues.disk_bytes_max`.";
    614 AccountFull "account-full" Operation Rejected 1013 503 true
        "The owner of the queue has as many bytes of messages, or as many queues, as a principal may have."
        "Try again when consumers have taken some messages of its queues, or raise `queues.principal_bytes_max` or `queues.principal_queues_max`.";
    615 RateLimited "rate-limited" Operation Rejected 1013 429 true
        "Who the client is logged in as, or its address, has sent more than a `[[limit]]` of the server allows, and the request cannot be held back."
        "Ask less often; the same request succeeds after a pause.";
    620 LargeMessagesFull "large-messages-full" Operation Rejected 1013 503 true
        "The disk space for large messages is used up, the disk does not take one, or too many of them arrive at once."
        "Try again when others have been delivered, or raise `large_messages.disk_bytes_max` or `large_messages.uploads_max`.";
    700 NoResponder "no-responder" Operation Rejected 1013 503 true
        "Nobody serves what was called."
        "Try again when the service runs.";
    701 ServiceBusy "service-busy" Operation Rejected 1013 503 true
        "Those who serve have no room and too many calls wait already; call again later."
        "Try again later.";
    702 CallTimeout "call-timeout" Operation Failed 1013 504 true
        "The other side was silent for longer than the caller's timeout."
        "Try again, or give the call more time.";
    703 ResponderGone "responder-gone" Operation Failed 1013 502 true
        "The session that answered the call has ended or no longer serves."
        "Call again; another responder may answer.";
    704 CallerGone "caller-gone" Operation Failed 1001 400 false
        "The session that had called has ended."
        "Nothing; stop the work for that call.";
    705 CallCancelled "call-cancelled" Operation Cancelled 1000 502 false
        "The caller has given the call up."
        "Nothing; stop the work for that call.";
    706 DuplicateCall "duplicate-call" Operation Failed 1008 400 false
        "A call of that number is open already."
        "Use a number that is not in use.";
    707 TooManyCalls "too-many-calls" Operation Rejected 1013 429 true
        "The session has reached its limit of open calls, or of their bytes that wait."
        "Wait for answers before calling again.";
    708 CallFailed "call-failed" Operation Failed 1011 400 false
        "The responder could not do what was asked; the sentence says why."
        "Do what the responder's sentence says.";
}

impl CloseCode {
    /// Whether it ends what its client has left already, or cannot be told any more: protocols have no
    /// last word for it.
    pub fn is_silent(self) -> bool {
        matches!(self, CloseCode::Done | CloseCode::PeerGone | CloseCode::TransportError)
    }

    /// Whether the server sends the client elsewhere, at a moment that it has chosen so that not all come at once.
    pub fn sends_elsewhere(self) -> bool {
        self == CloseCode::Draining
    }

    /// Whether it says of a subscription that it is not there, as of one that has just ended.
    pub fn names_no_subscription(self) -> bool {
        self == CloseCode::UnknownSubscription
    }

    /// Whether it refuses credentials, or who has shown them, so that it answers a login.
    pub fn refuses_login(self) -> bool {
        use CloseCode::{Blocked, LoginFailed, LoginRequired, LoginUnavailable};
        use CloseCode::{TooManyConnections, TooManyLogins, WrongHost};
        matches!(
            self,
            Blocked
                | LoginFailed
                | LoginRequired
                | LoginUnavailable
                | TooManyConnections
                | TooManyLogins
                | WrongHost
        )
    }
}

/// An error: a code for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", code.slug())]
pub struct Close {
    /// Which of the known errors it is.
    pub code: CloseCode,
    /// What happened, where, and what to do; may be shown to the client.
    pub reason: Cow<'static, str>,
    /// Where the client does well to go, if the server knows.
    pub addresses: Option<Addresses>,
}

impl Close {
    /// An error with a reason of its own.
    pub fn new(code: CloseCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Close { code, reason: reason.into(), addresses: None }
    }

    /// The same with where to go.
    pub fn to(self, addresses: Option<Addresses>) -> Self {
        Close { addresses, ..self }
    }

    /// What it says with where to go, for protocols whose last word is one text.
    pub fn sentence(&self) -> Cow<'_, str> {
        match &self.addresses {
            Some(addresses) => Cow::Owned(format!("{} Go to {addresses}", self.reason)),
            None => Cow::Borrowed(&self.reason),
        }
    }

    /// Answers the one request that it refuses, if no more than that ends by it.
    ///
    /// # Errors
    /// The error itself, if the session or the connection ends by it.
    pub fn answered(self, answer: impl FnOnce(&Close)) -> Result<(), Close> {
        if self.code.severity() > Severity::Operation {
            return Err(self);
        }
        answer(&self);
        Ok(())
    }
}

impl From<CloseCode> for Close {
    fn from(code: CloseCode) -> Self {
        let reason = CLOSE_CODES.get(code.index()).map_or("", |row| row.meaning);
        Close { code, reason: Cow::Borrowed(reason), addresses: None }
    }
}

#[cfg(test)]
mod tests;
