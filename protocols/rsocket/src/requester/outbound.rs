//! What the application says: requests, items, credit, ends.
//!
//! Relies on the table of streams. Invariant: what the other side's credit, lease or state does not
//! allow is refused here and never written.

use tiderace_base::Time;

use super::stream::{self, ENDLESS, Stream};
use super::{Phase, Requester, millis};
use crate::frame::{
    Body, ErrorCode, Frame, Interaction, Item, Lease, NUMBER_MAX, Payload, Request,
};

/// Why something cannot be said now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The conversation has not begun, is being resumed, or is over.
    #[error("the conversation is not open")]
    NotOpen,
    /// The server has given no lease, or it is used up or over.
    #[error("the server has given no lease for another request")]
    NoLease,
    /// All ids are in use.
    #[error("no stream is free")]
    NoStreams,
    /// The stream is not there, or may not be used in that way.
    #[error("stream {0} cannot be used in that way")]
    NoSuchStream(u32),
    /// The other side has given no credit for another item.
    #[error("the other side wants no more items on stream {0} now")]
    NoCredit(u32),
}

impl Requester {
    /// Says something once.
    ///
    /// # Errors
    /// When it cannot be said now.
    pub fn fire_and_forget(
        &mut self,
        now: Time,
        payload: Payload<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u32, Refused> {
        self.request(now, Interaction::FireAndForget, 0, payload, true, out)
    }

    /// Asks for one answer; returns the stream.
    ///
    /// # Errors
    /// When it cannot be said now.
    pub fn request_response(
        &mut self,
        now: Time,
        payload: Payload<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u32, Refused> {
        self.request(now, Interaction::Response, 0, payload, true, out)
    }

    /// Asks for many answers, so many of them at first; returns the stream.
    ///
    /// # Errors
    /// When it cannot be said now.
    pub fn request_stream(
        &mut self,
        now: Time,
        credit: u32,
        payload: Payload<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u32, Refused> {
        self.request(now, Interaction::Stream, credit, payload, true, out)
    }

    /// Begins a channel with its first item, which is also the last one if `complete`; returns the
    /// stream.
    ///
    /// # Errors
    /// When it cannot be said now.
    pub fn request_channel(
        &mut self,
        now: Time,
        credit: u32,
        payload: Payload<'_>,
        complete: bool,
        out: &mut Vec<u8>,
    ) -> Result<u32, Refused> {
        self.request(now, Interaction::Channel, credit, payload, complete, out)
    }

    fn request(
        &mut self,
        now: Time,
        interaction: Interaction,
        credit: u32,
        payload: Payload<'_>,
        complete: bool,
        out: &mut Vec<u8>,
    ) -> Result<u32, Refused> {
        if self.phase != Phase::Open {
            return Err(Refused::NotOpen);
        }
        if self.options.lease {
            let (until, left) = self.lease;
            if left == 0 || now >= until {
                return Err(Refused::NoLease);
            }
        }
        let id = self.streams.next_id().ok_or(Refused::NoStreams)?;
        if self.options.lease {
            self.lease.1 -= 1;
        }
        let channel = interaction == Interaction::Channel;
        let credit = credit.min(NUMBER_MAX);
        let (follows, ends) = (false, channel && complete);
        let request = Request { interaction, follows, complete: ends, credit, payload };
        self.outgoing.write(&Frame { stream: id, body: Body::Request(request) }, out);
        if interaction != Interaction::FireAndForget {
            let granted = if interaction.has_credit() { credit } else { 1 };
            let (theirs, sent, received_last) = (false, complete, false);
            self.streams.insert(
                id,
                Stream { granted, credit: 0, interaction, theirs, sent, received_last },
            );
        }
        Ok(id)
    }

    /// Wants so many items more.
    ///
    /// # Errors
    /// When the stream is not one that gives credit.
    pub fn request_n(&mut self, id: u32, items: u32, out: &mut Vec<u8>) -> Result<(), Refused> {
        self.open()?;
        let stream = self.streams.find(id).filter(|stream| {
            !stream.received_last && (stream.interaction == Interaction::Channel || !stream.theirs)
        });
        let stream = stream.filter(|stream| stream.interaction.has_credit());
        let stream = stream.ok_or(Refused::NoSuchStream(id))?;
        let items = items.clamp(1, NUMBER_MAX);
        stream::add(&mut stream.granted, items);
        self.outgoing.write(&Frame::request_n(id, items), out);
        Ok(())
    }

    /// Wants nothing more of a stream that this side has begun.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn cancel(&mut self, id: u32, out: &mut Vec<u8>) -> Result<(), Refused> {
        self.open()?;
        let stream = self.streams.find(id).ok_or(Refused::NoSuchStream(id))?;
        if stream.theirs {
            // Of a channel that the server has begun, its items alone are not wanted.
            if stream.interaction != Interaction::Channel || stream.received_last {
                return Err(Refused::NoSuchStream(id));
            }
            stream.received_last = true;
            self.streams.remove_ended(id);
        } else {
            self.streams.remove(id);
        }
        self.assemblies.forget(id);
        self.outgoing.write(&Frame::cancel(id), out);
        Ok(())
    }

    /// Says the next item of a channel, or of an answer; the last one if `complete`. The answer to a
    /// request-response is always that.
    ///
    /// # Errors
    /// When the other side has given no credit, or the stream takes no items.
    pub fn send(
        &mut self,
        id: u32,
        payload: Payload<'_>,
        complete: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        self.open()?;
        let stream = self.streams.find(id).filter(|stream| !stream.sent);
        let stream = stream.ok_or(Refused::NoSuchStream(id))?;
        if !stream::take(&mut stream.credit) {
            return Err(Refused::NoCredit(id));
        }
        let complete = complete || stream.interaction == Interaction::Response;
        stream.sent = complete;
        self.streams.remove_ended(id);
        self.outgoing.write(&Frame::item(id, payload, complete), out);
        Ok(())
    }

    /// How many items the other side wants now of a stream; [`NUMBER_MAX`] or more stand for any
    /// number.
    pub fn credit(&mut self, id: u32) -> u32 {
        let stream = self.streams.find(id).filter(|stream| !stream.sent);
        stream.map_or(0, |stream| stream.credit)
    }

    /// Says that no more items come.
    ///
    /// # Errors
    /// When that was said before, or the stream takes no items.
    pub fn complete(&mut self, id: u32, out: &mut Vec<u8>) -> Result<(), Refused> {
        self.open()?;
        let stream = self.streams.find(id).filter(|stream| !stream.sent);
        stream.ok_or(Refused::NoSuchStream(id))?.sent = true;
        self.streams.remove_ended(id);
        let (follows, complete, next, payload) = (false, true, false, Payload::default());
        let body = Body::Payload(Item { follows, complete, next, payload });
        self.outgoing.write(&Frame { stream: id, body }, out);
        Ok(())
    }

    /// Ends a stream by an error.
    ///
    /// # Errors
    /// When there is no such stream, or only its requester may end it in another way.
    pub fn fail(
        &mut self,
        id: u32,
        code: ErrorCode,
        text: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        self.open()?;
        let stream = self.streams.find(id).filter(|stream| !stream.sent || stream.theirs);
        stream.ok_or(Refused::NoSuchStream(id))?;
        self.streams.remove(id);
        self.assemblies.forget(id);
        self.outgoing.write(&Frame::error(id, code, text), out);
        Ok(())
    }

    /// Says something about the connection.
    ///
    /// # Errors
    /// When the conversation is not open.
    pub fn push(&mut self, metadata: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        self.open()?;
        self.outgoing.write(&Frame::connection(Body::MetadataPush(metadata)), out);
        Ok(())
    }

    /// Lets the server begin so many requests in the time given.
    ///
    /// # Errors
    /// When the conversation is not open.
    pub fn lease(
        &mut self,
        now: Time,
        ttl_ms: u32,
        requests: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        self.open()?;
        self.given = (now + millis(ttl_ms), requests);
        let lease = Lease { ttl_ms, requests, metadata: None };
        self.outgoing.write(&Frame::connection(Body::Lease(lease)), out);
        Ok(())
    }

    /// Ends the conversation: at once, or by CONNECTION_CLOSE when all streams have ended.
    pub fn close(&mut self, code: ErrorCode, text: &str, out: &mut Vec<u8>) {
        self.outgoing.write(&Frame::error(0, code, text), out);
        self.phase = Phase::Closed;
    }

    fn open(&self) -> Result<(), Refused> {
        match self.phase {
            Phase::Open | Phase::Closing => Ok(()),
            _ => Err(Refused::NotOpen),
        }
    }
}

const _: () = assert!(ENDLESS > NUMBER_MAX);
