//! The contract between transports, protocols and broker.
//!
//! ```text
//!   bytes ─▶ Session::receive ─▶ Commands ─▶ broker ─▶ Reply    ─▶ Session::reply   ─▶ Output ─▶ bytes
//!                                                  └─▶ Delivery ─▶ Session::deliver ─▶ Output ─▶ bytes
//! ```
//! A protocol implements [`Session`] and registers itself with a [`Protocol`] value. It never sees a
//! socket, a clock or the broker: it turns bytes into [`Commands`] and deliveries into bytes.
//! Messages travel in [`Run`]s: one immutable buffer holding consecutive messages of one publisher
//! to one destination, encoded at most once per wire form however many subscribers there are.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod action;
mod command;
mod deltas;
mod destination;
mod end_principal;
mod entrance;
mod exchange;
mod flags;
mod framing;
pub mod hand_over;
mod http;
mod intake;
mod names;
mod numbering;
mod operation;
mod output;
mod position;
pub mod properties;
mod queue_fields;
mod queue_order;
mod reply;
mod run;
mod run_origin;
mod session;
mod shared;
mod spans;
mod spec;
mod subscribed;
mod temporary;
mod ticket;
mod to_upstream;
mod trace_line;
mod upstream;
mod virtual_host;

pub use action::{SessionAction, SessionActions, Takeover};
pub use command::{
    Browsing, Command, Commands, Confirm, Credentials, Outcome, Prefetch, QueueStart, Settle,
    Subscribe, Token, Weight,
};
pub use deltas::{Bases, Deltas, EncodeDelta};
pub use destination::{Destination, Kind};
pub use end_principal::{EndClaim, EndPrincipal, EndPrincipalError};
pub use entrance::Entrance;
pub use exchange::{Call, Exchange, ExchangeKey, ExchangeSend, Side};
pub use flags::{Flags, Meta, PRIORITY_MAX, PRIORITY_USUAL};
pub use framing::{Framing, MessageFraming, PacketFraming};
pub use hand_over::{CLIENT_SESSION_ID_BYTES_MAX, CLIENT_SESSION_ID_BYTES_MIN, HandOver};
pub use http::{Answer, Field, Held, HttpFace, Request, Response, Route, RouteFn, append_refusal};
pub use intake::Intake;
pub use names::{bad_name, parse_path, parse_selector, shown};
pub use numbering::Numbering;
pub use operation::{
    AUDIT, Applies, AuditEntry, AuditOutcome, AuditPage, AuditQuery, AuditRecord, Audited, BACKUP,
    BLOCK_TIME_DEFAULT, BLOCK_TIME_MAX, BLOCKS_MAX, BROWSE_LIMIT_MAX, BackupPart, BackupSize,
    Block, BlockEntry, BlockOperation, BlockQuery, BlockResult, Blocked, Browsable, Browse,
    BrowseCursor, Change, ClientName, Comparison, Condition, ConfigChange, ConfigEntry, ConfigPage,
    ConfigQuery, ConfigTable, ConfigValue, ConsumerEntry, DRAIN_DELAY_MAX, DRAIN_OVER_MAX, DURABLE,
    DURABLE_TOPICS_MAX, DrainPhase, DrainRequest, DrainStatus, DurableSubscription, Event, Events,
    Explanation, Fetch, Hidden, HistoryQuery, IDENTITIES, IdentityChange, IdentityEntry,
    IdentityKind, IdentityMember, IdentityOperation, IdentityPage, Kick, LOG_LEVEL_TIME_MAX,
    Listing, ListingEntry, LogWord, MoveMessages, MovedMessages, NewIdentity, NewValue,
    NodeOperation, NodeReport, Operation, OperationResult, PEEK_BODY_BYTES_MAX, PEEK_LIMIT_MAX,
    Page, Peek, PeekedMessage, PeekedMessages, Question, QueueDetails, QueueEntry, QueueQuery,
    QueueSettings, REASON_BYTES_MAX, Reading, Replay, SESSIONS_LIMIT_MAX, SOURCE_TOPIC,
    ServiceEntry, SessionEntry, SessionFacts, SessionFilter, SessionOrder, SessionPage,
    SessionQuery, SessionRank, SessionState, TOKEN_TIME_MAX, TRACE, TRACE_BODY_BYTES_MAX,
    TRACE_TIME_DEFAULT, TRACE_TIME_MAX, TRACES_MAX, TopicDetails, TopicEntry, TraceEntry,
    TraceOperation, TraceRequest, TraceResult, Update, ViewEntry, blocked_close, durable_queue,
    is_durable, parse_session_id, spell,
};
pub use output::{OutQueue, Output};
pub use position::Position;
pub use queue_fields::QueueFields;
pub use queue_order::{number_of, rank_of, rank_of_priority, version_of};
pub use reply::{Delivery, Reply};
pub use run::{Message, Run, RunBuilder, SharedBytes, UpstreamNumbers};
pub use session::{Context, Detect, Incoming, Open, Opening, Progress, Protocol, Session};
pub use shared::{EncodingKey, MergedParts, SharedRun};
pub use spans::{SpanContext, SpanId, TRACEPARENT, TraceId, TraceParent, Traced, TracedMessage};
pub use spec::{
    Conflation, HistorySpec, Priority, Removal, RemovalCondition, SPEC_BYTES_MAX,
    SPEC_SCHEMA_BYTES_MAX, SchemaSpec, SlowConsumer, SpecError, TopicSpec, ValueType, span_of,
};
pub use subscribed::{LeaveReason, SubscriptionKey, Target};
pub use temporary::{TemporaryName, home_of, is_temporary};
pub use ticket::Ticket;
pub use tiderace_base::{read_varint, write_varint};
pub use to_upstream::ToUpstream;
pub use trace_line::TraceLine;
pub use upstream::FromUpstream;
pub use virtual_host::{
    EVERY_HOST, NamedHost, Root, VirtualHost, VirtualHosts, called_at, host_name, host_of,
    is_host_name, meant_at, names_host, own_name, root_of, within_host,
};
