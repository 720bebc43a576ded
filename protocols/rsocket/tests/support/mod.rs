//! Any frame, for property tests.
#![allow(dead_code, unreachable_pub)]

pub mod rig;

use proptest::prelude::*;
use tiderace_rsocket::frame::{
    Body, ErrorCode, Extension, Failure, Frame, Interaction, Item, KeepAlive, Lease, NUMBER_MAX,
    POSITION_MAX, Payload, Request, Resume, Setup,
};

/// What a frame borrows from, and how to make it.
#[derive(Clone, Debug)]
pub struct Seed {
    pub which: u8,
    pub stream: u32,
    pub numbers: (u32, u32),
    pub positions: (u64, u64),
    pub version: (u16, u16),
    pub flags: (bool, bool, bool),
    pub metadata: Option<Vec<u8>>,
    pub data: Vec<u8>,
    pub token: Option<Vec<u8>>,
    pub mimes: (Vec<u8>, Vec<u8>),
}

/// Any seed whose payloads have at most so many bytes each.
pub fn seeds(bytes_max: usize) -> impl Strategy<Value = Seed> {
    let bytes = move |max: usize| proptest::collection::vec(any::<u8>(), 0..=max);
    let numbers = || prop_oneof![0..=NUMBER_MAX, Just(NUMBER_MAX), Just(0)];
    let positions = || prop_oneof![0..=POSITION_MAX, Just(POSITION_MAX), Just(0)];
    (
        (
            any::<u8>(),
            numbers(),
            (numbers(), numbers()),
            (positions(), positions()),
            any::<(u16, u16)>(),
        ),
        any::<(bool, bool, bool)>(),
        (
            proptest::option::of(bytes(bytes_max)),
            bytes(bytes_max),
            proptest::option::of(bytes(300)),
        ),
        (bytes(255), bytes(255)),
    )
        .prop_map(|((which, stream, numbers, positions, version), flags, parts, mimes)| {
            let (metadata, data, token) = parts;
            Seed { which, stream, numbers, positions, version, flags, metadata, data, token, mimes }
        })
}

impl Seed {
    pub fn payload(&self) -> Payload<'_> {
        Payload { metadata: self.metadata.as_deref(), data: &self.data }
    }

    /// A frame that can be cut into fragments.
    pub fn message(&self) -> Frame<'_> {
        let seed = Seed { which: self.which % 5, ..self.clone() };
        let body = match seed.which {
            0 => Interaction::FireAndForget,
            1 => Interaction::Response,
            2 => Interaction::Stream,
            3 => Interaction::Channel,
            _ => {
                let (_, complete, _) = self.flags;
                return Frame::item(self.stream, self.payload(), complete);
            }
        };
        Frame { stream: self.stream, body: self.request(body, false) }
    }

    pub fn frame(&self) -> Frame<'_> {
        let (a, b, c) = self.flags;
        let payload = self.payload();
        let body = match self.which % 16 {
            0 => Body::Setup(Setup {
                version: self.version,
                interval_ms: self.numbers.0,
                lifetime_ms: self.numbers.1,
                token: self.token.as_deref(),
                lease: a,
                metadata_mime: &self.mimes.0,
                data_mime: &self.mimes.1,
                payload,
            }),
            1 => Body::Lease(Lease {
                ttl_ms: self.numbers.0,
                requests: self.numbers.1,
                metadata: payload.metadata,
            }),
            2 => Body::KeepAlive(KeepAlive {
                respond: a,
                position: self.positions.0,
                data: payload.data,
            }),
            3 => self.request(Interaction::FireAndForget, a),
            4 => self.request(Interaction::Response, a),
            5 => self.request(Interaction::Stream, a),
            6 => self.request(Interaction::Channel, a),
            7 => Body::RequestN(self.numbers.0),
            8 => Body::Cancel,
            9 => Body::Payload(Item { follows: a, complete: b, next: c, payload }),
            10 => Body::Error(Failure { code: ErrorCode(self.numbers.0), text: payload.data }),
            11 => Body::MetadataPush(payload.data),
            12 => Body::Resume(Resume {
                version: self.version,
                token: self.token.as_deref().unwrap_or_default(),
                received: self.positions.0,
                available: self.positions.1,
            }),
            13 => Body::ResumeOk(self.positions.0),
            14 => Body::Extension(Extension {
                ignore: a,
                metadata: b,
                kind: self.numbers.0,
                bytes: payload.data,
            }),
            _ => Body::Ignored,
        };
        Frame { stream: self.stream, body }
    }

    fn request(&self, interaction: Interaction, follows: bool) -> Body<'_> {
        Body::Request(Request {
            interaction,
            follows,
            complete: interaction == Interaction::Channel && self.flags.1,
            credit: if interaction.has_credit() { self.numbers.0 } else { 0 },
            payload: self.payload(),
        })
    }
}
