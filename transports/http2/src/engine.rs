//! The one file that knows `h2`: a connection driven over memory, and its streams.
//!
//! `h2` is written for runtimes that wake tasks. Here nothing sleeps: a connection is driven when bytes
//! have come or there is room for some, and alarms say which streams are worth a look then. Relies on
//! [`crate::Watch`] having looked at the bytes. Invariant: what a stream has received is taken out after
//! every call, so that it costs its bytes and nothing else; the window is opened again only when
//! [`Stream::release`] says that somebody has taken them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{Method, Request, Response};

use crate::answer::AnswerHead;
use crate::limits::Limits;
use crate::memory::{Memory, exchange};

/// One HTTP/2 connection.
pub struct Engine {
    state: State,
    bell: Arc<AtomicBool>,
}

enum State {
    Opening(Box<Handshake<Memory, Bytes>>),
    Open(Box<Connection<Memory, Bytes>>),
    Over,
}

/// A request and the stream it came on.
#[derive(Debug)]
pub struct Accepted {
    /// Its head.
    pub request: Request<()>,
    /// The protocol that an extended CONNECT asks for (RFC 8441).
    pub protocol: Option<String>,
    /// Its stream.
    pub stream: Stream,
}

/// What driving a connection led to.
#[derive(Debug)]
pub struct Driven {
    /// Bytes of the input that are done with; the rest comes again when the output has room.
    pub consumed: usize,
    /// Whether the output is full and there may be more.
    pub is_full: bool,
    /// Set when the connection is over: nothing follows.
    pub over: Option<Over>,
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// In good order.
    Done,
    /// The client did not keep to the protocol and has been told so.
    Broken(String),
    /// The client sent more than it may of something, and has been told so.
    Flooded(String),
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// A connection that has said nothing yet.
    pub fn new(limits: &Limits) -> Engine {
        let mut builder = Builder::new();
        builder
            .max_concurrent_streams(limits.streams_max)
            .max_header_list_size(limits.header_bytes_max)
            .header_table_size(limits.header_table_bytes)
            .initial_window_size(limits.stream_window_bytes)
            .max_send_buffer_size(limits.send_buffer_bytes)
            .data_frame_budget(limits.data_frame_budget)
            .max_concurrent_reset_streams(RESETS_REMEMBERED)
            .max_pending_accept_reset_streams(SLICE_RESETS_MAX)
            .enable_connect_protocol();
        let opening = Box::new(builder.handshake(Memory));
        Engine { state: State::Opening(opening), bell: Arc::default() }
    }

    /// Takes bytes in, appends what is to be sent until the output is `output_max` long, and gives the
    /// requests that came to `accept`.
    pub fn drive(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        output_max: usize,
        mut accept: impl FnMut(Accepted),
    ) -> Driven {
        let bell = &self.bell;
        let state = &mut self.state;
        let (consumed, over) = exchange(input, output, output_max, || {
            loop {
                match state {
                    State::Opening(handshake) => {
                        let mut context = Context::from_waker(Waker::noop());
                        match Pin::new(&mut **handshake).poll(&mut context) {
                            Poll::Pending => return None,
                            Poll::Ready(Ok(open)) => *state = State::Open(Box::new(open)),
                            Poll::Ready(Err(error)) => return Some(end_of(&error)),
                        }
                    }
                    State::Open(connection) => match next(connection, bell) {
                        Poll::Pending => return None,
                        Poll::Ready(Some(Ok(accepted))) => accept(accepted),
                        Poll::Ready(Some(Err(error))) => return Some(end_of(&error)),
                        Poll::Ready(None) => return Some(Over::Done),
                    },
                    State::Over => return Some(Over::Done),
                }
            }
        });
        if over.is_some() {
            self.state = State::Over;
        }
        Driven { consumed, is_full: output.len() >= output_max, over }
    }

    /// Whether some stream may have something, or room; forgets it.
    pub fn has_rung(&self) -> bool {
        self.bell.swap(false, Ordering::Relaxed)
    }

    /// The client may send so many bytes ahead on all streams together; until this is called, the
    /// 65,535 that RFC 9113 gives every connection.
    pub fn widen(&mut self, window_bytes: u32) {
        if let State::Open(connection) = &mut self.state {
            connection.set_target_window_size(window_bytes.max(FIRST_WINDOW_BYTES));
        }
    }

    /// The client hears that no new streams are wanted; those that are open go on.
    pub fn drain(&mut self) {
        if let State::Open(connection) = &mut self.state {
            connection.graceful_shutdown();
        }
    }

    /// The connection ends: by a flood, a defect, or simply because it is time.
    pub fn abort(&mut self, over: &Over) {
        if let State::Open(connection) = &mut self.state {
            connection.abrupt_shutdown(match over {
                Over::Done => Reason::NO_ERROR,
                Over::Broken(_) => Reason::PROTOCOL_ERROR,
                Over::Flooded(_) => Reason::ENHANCE_YOUR_CALM,
            });
        }
    }
}

fn next(
    connection: &mut Connection<Memory, Bytes>,
    bell: &Arc<AtomicBool>,
) -> Poll<Option<Result<Accepted, h2::Error>>> {
    let mut context = Context::from_waker(Waker::noop());
    connection.poll_accept(&mut context).map_ok(|(request, respond)| {
        let (parts, receive) = request.into_parts();
        let protocol = parts.extensions.get::<h2::ext::Protocol>();
        let protocol = protocol.map(|protocol| protocol.as_str().to_owned());
        let rung = AtomicBool::new(true);
        bell.store(true, Ordering::Relaxed);
        let alarm = Arc::new(Alarm { rung, bell: Arc::clone(bell) });
        let is_head = parts.method == Method::HEAD;
        let stream = Stream { receive, send: Send::Due(respond), alarm, is_over: false, is_head };
        Accepted { request: Request::from_parts(parts, ()), protocol, stream }
    })
}

fn end_of(error: &h2::Error) -> Over {
    match error.reason() {
        Some(Reason::NO_ERROR) => Over::Done,
        Some(Reason::ENHANCE_YOUR_CALM) if error.is_library() => Over::Flooded(error.to_string()),
        // What the client says of its own end is no fault.
        _ if error.is_remote() => Over::Done,
        _ => Over::Broken(error.to_string()),
    }
}

/// Rings when a stream is worth a look.
#[derive(Debug)]
struct Alarm {
    rung: AtomicBool,
    bell: Arc<AtomicBool>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Relaxed);
        self.bell.store(true, Ordering::Relaxed);
    }
}

/// One stream. Dropped before both sides have ended it is reset.
pub struct Stream {
    receive: RecvStream,
    send: Send,
    alarm: Arc<Alarm>,
    /// Whether the client's side has ended.
    is_over: bool,
    /// Whether the request is HEAD, whose answer has no body.
    is_head: bool,
}

/// Our side of a stream.
enum Send {
    /// The head is due.
    Due(SendResponse<Bytes>),
    /// The body is due, of which so many bytes are left if its length is known.
    Body(SendStream<Bytes>, Option<u64>),
    /// All is said.
    Ended,
}

/// What our side of a stream is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The head is due.
    Head,
    /// The body is due.
    Body,
    /// All is said.
    Ended,
}

/// What a stream has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The client may send more.
    Open,
    /// The client has said all.
    Ended,
    /// The stream is of no use any more.
    Reset,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl Stream {
    /// Whether it is worth a look; forgets it.
    pub fn has_rung(&self) -> bool {
        self.alarm.rung.swap(false, Ordering::Relaxed)
    }

    /// Takes out what has come. Trailers are taken note of as the end they are, and dropped.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8])) -> Received {
        let waker = Waker::from(Arc::clone(&self.alarm));
        let mut context = Context::from_waker(&waker);
        if !matches!(self.send, Send::Ended) && self.is_reset(&mut context) {
            return Received::Reset;
        }
        while !self.is_over {
            match self.receive.poll_data(&mut context) {
                Poll::Ready(Some(Ok(data))) => take(&data),
                Poll::Ready(Some(Err(_))) => return Received::Reset,
                Poll::Ready(None) => self.is_over = true,
                Poll::Pending => return Received::Open,
            }
        }
        Received::Ended
    }

    /// Whether nothing will come.
    pub fn is_ended(&self) -> bool {
        self.receive.is_end_stream()
    }

    fn is_reset(&mut self, context: &mut Context<'_>) -> bool {
        let reset = match &mut self.send {
            Send::Due(respond) => respond.poll_reset(context),
            Send::Body(body, _) => body.poll_reset(context),
            Send::Ended => Poll::Pending,
        };
        reset.is_ready()
    }

    /// So many bytes have been taken by those they are for: the client may send as many more.
    pub fn release(&mut self, bytes: usize) {
        // It fails only for more than was received, and then there is nothing to open.
        let _ = self.receive.flow_control().release_capacity(bytes);
    }

    /// Sends the head of an answer; false if the stream is of no use. The answer ends with so many bytes
    /// of a body, and with the head if they are none; unless their number is known, with
    /// [`Stream::finish`]. What answers HEAD ends with the head (RFC 9110 section 9.3.2): clients take a body
    /// for a broken stream.
    pub fn respond(&mut self, head: AnswerHead, body_bytes: Option<u64>) -> bool {
        let ends = self.is_head || body_bytes == Some(0);
        let Send::Due(respond) = &mut self.send else {
            return false;
        };
        let mut response = Response::new(());
        *response.status_mut() = head.status;
        *response.headers_mut() = head.fields;
        if head.status.is_informational() {
            return respond.send_informational(response).is_ok();
        }
        match respond.send_response(response, ends) {
            Ok(body) => {
                self.send = if ends { Send::Ended } else { Send::Body(body, body_bytes) };
                true
            }
            Err(_) => false,
        }
    }

    /// How many of `wanted` bytes may be sent now; the alarm rings when it becomes more.
    pub fn room(&mut self, wanted: usize) -> usize {
        let Send::Body(body, _) = &mut self.send else {
            return 0;
        };
        body.reserve_capacity(wanted);
        let room = body.capacity();
        if room < wanted {
            let waker = Waker::from(Arc::clone(&self.alarm));
            // Registers the alarm; what it answers is known already.
            let _ = body.poll_capacity(&mut Context::from_waker(&waker));
        }
        room.min(wanted)
    }

    /// Sends what there is [`Stream::room`] for; false if the stream is of no use.
    pub fn send(&mut self, data: Bytes) -> bool {
        let Send::Body(body, left) = &mut self.send else {
            return false;
        };
        *left = left.map(|left| left.saturating_sub(data.len() as u64));
        let ends = *left == Some(0);
        let is_sent = body.send_data(data, ends).is_ok();
        if ends && is_sent {
            self.send = Send::Ended;
        }
        is_sent
    }

    /// Ends our side, if it has begun and not ended.
    pub fn finish(&mut self) {
        if let Send::Body(body, _) = &mut self.send
            && body.send_data(Bytes::new(), true).is_ok()
        {
            self.send = Send::Ended;
        }
    }

    /// What our side is at.
    pub fn sending(&self) -> Sending {
        match self.send {
            Send::Due(_) => Sending::Head,
            Send::Body(..) => Sending::Body,
            Send::Ended => Sending::Ended,
        }
    }

    /// Resets the stream: it was refused before anything was done, and may be tried again.
    pub fn refuse(&mut self) {
        self.reset(Reason::REFUSED_STREAM);
    }

    /// Resets the stream over a request that is not one.
    pub fn malformed(&mut self) {
        self.reset(Reason::PROTOCOL_ERROR);
    }

    fn reset(&mut self, reason: Reason) {
        match &mut self.send {
            Send::Due(respond) => respond.send_reset(reason),
            Send::Body(body, _) => body.send_reset(reason),
            Send::Ended => {}
        }
        self.send = Send::Ended;
    }
}

/// What any connection may send ahead (RFC 9113 section 6.9.2); it cannot begin with less.
const FIRST_WINDOW_BYTES: u32 = 65_535;
/// Streams reset by us whose late frames are put up with.
const RESETS_REMEMBERED: usize = 50;
/// Streams begun and reset within what is taken in at once; [`crate::Watch`] bounds them over time.
const SLICE_RESETS_MAX: usize = 256;
