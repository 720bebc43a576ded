//! One frame as several.
//!
//! Relies on slices. rsocket-java drops a fragment that is not marked as an item and refuses one that
//! is shorter than 64 bytes with its prefix, unless it is the last; it wants the end of a channel said
//! by the last fragment. Invariants: every fragment but the last is as long as it may be; metadata is
//! complete before data begins.

use crate::frame::{
    Body, FRAME_BYTES_MAX, Frame, HEADER_BYTES, Interaction, Item, Payload, Request,
};

/// The shortest limit for fragments: what rsocket-java demands, without a prefix to spare.
pub const FRAGMENT_BYTES_MIN: usize = 64;

/// A frame, or its fragments.
#[derive(Clone, Debug)]
pub struct Fragments<'a> {
    stream: u32,
    bytes_max: usize,
    rest: Rest<'a>,
}

#[derive(Clone, Debug)]
enum Rest<'a> {
    /// It cannot be cut.
    Whole(Body<'a>),
    /// The request is still to come.
    Request { interaction: Interaction, credit: u32, complete: bool, payload: Payload<'a> },
    /// So much of the payload.
    Payload { next: bool, complete: bool, payload: Payload<'a> },
    /// Nothing.
    Nothing,
}

impl<'a> Fragments<'a> {
    /// Cuts a frame into such of at most `bytes_max` bytes, without their prefix; a limit that is too
    /// small or too large is taken as the smallest or the largest there is.
    pub fn new(frame: Frame<'a>, bytes_max: usize) -> Fragments<'a> {
        let bytes_max = bytes_max.clamp(FRAGMENT_BYTES_MIN, FRAME_BYTES_MAX);
        let rest = match frame.body {
            Body::Request(Request { interaction, credit, complete, payload, .. }) => {
                Rest::Request { interaction, credit, complete, payload }
            }
            Body::Payload(Item { next, complete, payload, .. }) => {
                Rest::Payload { next, complete, payload }
            }
            whole => Rest::Whole(whole),
        };
        Fragments { stream: frame.stream, bytes_max, rest }
    }
}

impl<'a> Iterator for Fragments<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let body = match std::mem::replace(&mut self.rest, Rest::Nothing) {
            Rest::Nothing => return None,
            Rest::Whole(body) => body,
            Rest::Request { interaction, credit, complete, payload } => {
                let room =
                    self.bytes_max - HEADER_BYTES - 4 * usize::from(interaction.has_credit());
                let (payload, rest) = cut(payload, room);
                let follows = rest.is_some();
                if let Some(payload) = rest {
                    self.rest = Rest::Payload { next: true, complete, payload };
                }
                let complete = complete && !follows;
                Body::Request(Request { interaction, follows, complete, credit, payload })
            }
            Rest::Payload { next, complete, payload } => {
                let (payload, rest) = cut(payload, self.bytes_max - HEADER_BYTES);
                let follows = rest.is_some();
                if let Some(payload) = rest {
                    self.rest = Rest::Payload { next: true, complete, payload };
                }
                let complete = complete && !follows;
                Body::Payload(Item { follows, complete, next: next || follows, payload })
            }
        };
        Some(Frame { stream: self.stream, body })
    }
}

/// As much as there is room for, and the rest.
fn cut(payload: Payload<'_>, room: usize) -> (Payload<'_>, Option<Payload<'_>>) {
    let head = if payload.metadata.is_some() { 3 } else { 0 };
    if head + payload.len() <= room {
        return (payload, None);
    }
    let mut room = room.saturating_sub(head);
    let (metadata, metadata_rest) = match payload.metadata {
        Some(metadata) => {
            let (part, rest) = metadata.split_at(metadata.len().min(room));
            (Some(part), (!rest.is_empty()).then_some(rest))
        }
        None => (None, None),
    };
    room -= metadata.map_or(0, <[u8]>::len);
    let (data, data_rest) = payload.data.split_at(payload.data.len().min(room));
    (Payload { metadata, data }, Some(Payload { metadata: metadata_rest, data: data_rest }))
}
