//! The bytes of `docs/protocol.md`, both ways: for the session here, for clients and load generators
//! in Rust.
//!
//! Relies on nothing but slices. Invariants: reading never panics and allocates by bytes at hand, never
//! by declared lengths; what is written is read back as it was.

mod acting;
mod addresses;
mod client;
mod consumer;
mod content;
mod entry;
mod fields;
mod nodes;
mod operate;
mod server;

pub use acting::{AsMessage, PrincipalMessage};
pub use addresses::AddressList;
pub use client::{
    Auth, CallMessage, ClientMessage, Destination, Hello, Publish, SendMessage, SettleMessage,
    SubscribeMessage,
};
pub use consumer::ConsumerMessage;
pub use content::{Content, check_properties, split_content};
pub use entry::{Numbers, QueuedEntries, QueuedEntry, Update, Updates, Version};
pub use fields::{CodecError, Messages, Reader, begin_message, end_message, write_bytes};
pub use nodes::Nodes;
pub use operate::{OperateMessage, ResultMessage};
pub use server::{ExchangeMessage, Queued, ServerMessage, Welcome};

/// The version of the protocol.
pub const VERSION: u64 = 1;

/// What the first byte of a message says it is.
pub mod kind {
    #![allow(missing_docs, reason = "the names are those of the specification")]
    pub const HELLO: u8 = 0x01;
    pub const LOGIN: u8 = 0x02;
    pub const SUBSCRIBE: u8 = 0x03;
    pub const UNSUBSCRIBE: u8 = 0x04;
    pub const DECLARE: u8 = 0x05;
    pub const PUBLISH: u8 = 0x06;
    pub const SETTLE: u8 = 0x07;
    pub const CALL: u8 = 0x08;
    pub const SEND: u8 = 0x09;
    pub const CANCEL: u8 = 0x0a;
    pub const CREDIT: u8 = 0x0b;
    pub const PING: u8 = 0x0c;
    pub const BYE: u8 = 0x0d;
    pub const OPERATE: u8 = 0x0e;
    pub const PRINCIPAL: u8 = 0x0f;
    pub const AS: u8 = 0x10;
    pub const CONSUMER: u8 = 0x11;
    pub const WANT: u8 = 0x12;
    pub const WELCOME: u8 = 0x41;
    pub const OK: u8 = 0x42;
    pub const ERROR: u8 = 0x43;
    pub const TOPIC: u8 = 0x44;
    pub const UPDATES: u8 = 0x45;
    pub const QUEUED: u8 = 0x46;
    pub const EXCHANGE: u8 = 0x47;
    pub const POSITION: u8 = 0x48;
    pub const RECOVERED: u8 = 0x49;
    pub const ENDED: u8 = 0x4a;
    pub const PONG: u8 = 0x4b;
    pub const CLOSE: u8 = 0x4c;
    pub const LOGGED_IN: u8 = 0x4d;
    pub const RESULT: u8 = 0x4e;
    pub const JOINED: u8 = 0x4f;
    pub const LEFT: u8 = 0x50;
    pub const FOLLOWS: u8 = 0x51;
    pub const BROWSED: u8 = 0x52;
    pub const WANTED: u8 = 0x53;
    pub const NODES: u8 = 0x54;
    pub const UNSUBSCRIBED: u8 = 0x55;
    /// Servers skip unknown types from here on.
    pub const OPTIONAL: u8 = 0x80;
}

/// Flags of messages and entries; each message has those that its line in the specification names.
pub mod flag {
    #![allow(missing_docs, reason = "the names are those of the specification")]
    /// The two bits of [`super::Content`].
    pub const CONTENT: u8 = 0x03;
    pub const PROPERTIES: u8 = 0x04;

    // PUBLISH
    pub const RETAIN: u8 = 0x08;
    pub const REMOVE: u8 = 0x10;
    pub const EXPIRES: u8 = 0x20;
    pub const PERSISTENT: u8 = 0x40;
    pub const QUEUE_FIELDS: u8 = 0x80;

    // UPDATES, QUEUED, EXCHANGE
    pub const ANNOUNCED: u8 = 0x08;
    pub const FULL_VERSION: u8 = 0x10;
    pub const DELTA: u8 = 0x20;
    pub const REMOVED: u8 = 0x40;
    pub const VALUE: u8 = 0x80;

    // CALL, SEND, EXCHANGE
    pub const LAST: u8 = 0x08;
    pub const RESPONDER: u8 = 0x10;
    /// Of CALL.
    pub const CREDIT: u8 = 0x10;
    pub const FIRST: u8 = 0x20;
    pub const SERVICE_ANNOUNCED: u8 = 0x40;
    /// There is no message: this side has said its last before. With LAST.
    pub const BARE: u8 = 0x80;

    // OPERATE
    pub const BODY: u8 = 0x01;
}

/// What WELCOME tells that a server can do.
pub mod feature {
    /// SUBSCRIBE may have the flags VALUES and OK_LAST.
    pub const VALUES: u64 = 0x1;
    /// SUBSCRIBE may have the flags BROWSE, FOLLOW and START.
    pub const BROWSE: u64 = 0x2;
    /// SUBSCRIBE may have the flag NUMBERED.
    pub const NUMBERED: u64 = 0x4;
    /// PRINCIPAL and AS are understood.
    pub const RELAY: u64 = 0x8;
    /// AS may hold CALL; CALL may have the flag CREDIT and SUBSCRIBE the flag CREDITS, and WANT is understood.
    pub const CALLS: u64 = 0x20;
    /// An AS may hold SUBSCRIBE to queues, with the flag CREDIT, and CONSUMER is understood.
    pub const QUEUES: u64 = 0x10;
}

/// Flags of SUBSCRIBE.
pub mod subscribe {
    #![allow(missing_docs, reason = "the names are those of the specification")]
    pub const SNAPSHOT: u64 = 0x001;
    pub const RECOVERABLE: u64 = 0x002;
    pub const DELTAS: u64 = 0x004;
    pub const SELECTOR: u64 = 0x008;
    pub const WINDOW: u64 = 0x010;
    pub const RESUME: u64 = 0x020;
    pub const EXPLICIT: u64 = 0x040;
    pub const EXCLUSIVE: u64 = 0x080;
    pub const PATTERN: u64 = 0x100;
    pub const REPLAY: u64 = 0x200;
    pub const INTERVAL: u64 = 0x400;
    pub const NOTICES: u64 = 0x800;
    pub const VALUES: u64 = 0x1000;
    pub const OK_LAST: u64 = 0x2000;
    pub const BROWSE: u64 = 0x4000;
    pub const FOLLOW: u64 = 0x8000;
    pub const START: u64 = 0x1_0000;
    pub const NUMBERED: u64 = 0x2_0000;
    pub const CREDIT: u64 = 0x4_0000;
    pub const CREDITS: u64 = 0x8_0000;
    pub const ALL: u64 = 0xf_ffff;
}
