//! A client of HTTP/2 on the simulated network, made of `h2`'s own client.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use tiderace_reactor::driver::sim::Client;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::world::World;

#[derive(Debug, Default)]
struct Pipe {
    incoming: VecDeque<u8>,
    ended: bool,
    outgoing: Vec<u8>,
}

/// One end of a connection, in memory.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Pipe>>);

impl AsyncRead for Memory {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut pipe = self.0.lock().unwrap();
        let count = pipe.incoming.len().min(buffer.remaining());
        if count == 0 && !pipe.ended {
            return Poll::Pending;
        }
        let bytes: Vec<u8> = pipe.incoming.drain(..count).collect();
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Memory {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A connection of HTTP/2.
pub struct Http2 {
    pub client: Client,
    memory: Memory,
    read: usize,
    send: SendRequest<Bytes>,
    connection: Connection<Memory, Bytes>,
    /// How the connection ended.
    pub over: Option<Result<(), String>>,
}

/// A stream of it.
pub struct Exchange {
    future: ResponseFuture,
    send: SendStream<Bytes>,
    unsent: VecDeque<u8>,
    /// Whether our side ends when all is sent.
    ends: bool,
    /// Statuses of interim answers.
    pub interim: Vec<u16>,
    pub head: Option<Response<()>>,
    receive: Option<RecvStream>,
    pub body: Vec<u8>,
    pub trailers: Option<HeaderMap>,
    /// Whether the server has said all, or why it reset the stream.
    pub over: Option<Result<(), String>>,
    /// Whether what comes is left where it is.
    pub stalled: bool,
}

impl Http2 {
    pub fn connect(world: &World) -> Http2 {
        Http2::with(world, |_| {})
    }

    pub fn with(world: &World, change: impl FnOnce(&mut Builder)) -> Http2 {
        let client = world.network.connect(0);
        let memory = Memory::default();
        let mut builder = Builder::new();
        change(&mut builder);
        let Poll::Ready(Ok((send, connection))) = poll(builder.handshake(memory.clone())) else {
            panic!("nothing to wait for");
        };
        Http2 { client, memory, read: 0, send, connection, over: None }
    }

    /// Lets bytes go both ways.
    pub fn step(&mut self, world: &World) {
        let received = world.network.received(self.client);
        {
            let mut pipe = self.memory.0.lock().unwrap();
            pipe.incoming.extend(&received[self.read..]);
            pipe.ended = world.network.is_ended(self.client);
        }
        self.read = received.len();
        if self.over.is_none()
            && let Poll::Ready(over) = poll(&mut self.connection)
        {
            self.over = Some(over.map_err(|error| error.to_string()));
        }
        let outgoing = std::mem::take(&mut self.memory.0.lock().unwrap().outgoing);
        if !outgoing.is_empty() {
            world.network.send(self.client, &outgoing);
        }
    }

    /// Begins a request whose body ends at once unless `open`.
    pub fn request(&mut self, request: Request<()>, open: bool) -> Exchange {
        let (future, send) = self.send.send_request(request, !open).unwrap();
        Exchange {
            future,
            send,
            unsent: VecDeque::new(),
            ends: false,
            interim: Vec::new(),
            head: None,
            receive: None,
            body: Vec::new(),
            trailers: None,
            over: None,
            stalled: false,
        }
    }

    /// Whether extended CONNECT is offered.
    pub fn has_websockets(&self) -> bool {
        self.send.is_extended_connect_protocol_enabled()
    }

    /// Whether the server takes another stream now.
    pub fn is_ready(&mut self) -> bool {
        matches!(self.send.poll_ready(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
    }

    pub fn get(&mut self, target: &str) -> Exchange {
        self.request(Request::get(format!("http://h{target}")).body(()).unwrap(), false)
    }

    pub fn websocket(&mut self, path: &str) -> Exchange {
        self.upgrade(path, "13")
    }

    /// An extended CONNECT for a WebSocket of that version.
    pub fn upgrade(&mut self, path: &str, version: &str) -> Exchange {
        let mut request = Request::connect(format!("http://h{path}"))
            .header("sec-websocket-version", version)
            .body(())
            .unwrap();
        request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
        self.request(request, true)
    }

    /// Runs the world until the condition holds of the stream.
    pub fn run(
        &mut self,
        world: &mut World,
        exchange: &mut Exchange,
        what: &str,
        mut done: impl FnMut(&Exchange) -> bool,
    ) {
        world.run_until(what, |world| {
            self.step(world);
            exchange.step();
            self.step(world);
            done(exchange)
        });
    }

    /// Runs until the stream has an answer; its status and body.
    pub fn wait(&mut self, world: &mut World, exchange: &mut Exchange) -> (u16, String) {
        self.run(world, exchange, "an answer", |exchange| exchange.over.is_some());
        let status = exchange.head.as_ref().map_or(0, |head| head.status().as_u16());
        (status, String::from_utf8_lossy(&exchange.body).into_owned())
    }
}

impl Exchange {
    pub fn say(&mut self, bytes: &[u8]) {
        self.unsent.extend(bytes);
    }

    /// Bytes that the server's windows have not allowed yet.
    pub fn unsent(&self) -> usize {
        self.unsent.len()
    }

    pub fn finish(&mut self) {
        self.ends = true;
    }

    pub fn reset(&mut self) {
        self.send.send_reset(h2::Reason::CANCEL);
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.as_ref()?.headers().get(name)?.to_str().ok()
    }

    pub fn step(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        if self.head.is_none() && self.over.is_none() {
            while let Poll::Ready(Some(Ok(interim))) = self.future.poll_informational(&mut context)
            {
                self.interim.push(interim.status().as_u16());
            }
            match Pin::new(&mut self.future).poll(&mut context) {
                Poll::Ready(Ok(response)) => {
                    let (parts, receive) = response.into_parts();
                    self.head = Some(Response::from_parts(parts, ()));
                    self.receive = Some(receive);
                }
                Poll::Ready(Err(error)) => self.over = Some(Err(error.to_string())),
                Poll::Pending => {}
            }
        }
        while !self.unsent.is_empty() {
            self.send.reserve_capacity(self.unsent.len());
            let count = self.send.capacity().min(self.unsent.len());
            if count == 0 {
                break;
            }
            let part: Vec<u8> = self.unsent.drain(..count).collect();
            if self.send.send_data(part.into(), false).is_err() {
                self.unsent.clear();
            }
        }
        if self.ends && self.unsent.is_empty() {
            self.ends = false;
            let _ = self.send.send_data(Bytes::new(), true);
        }
        while let Some(receive) = self.receive.as_mut().filter(|_| !self.stalled) {
            if self.over.is_some() {
                break;
            }
            match receive.poll_data(&mut context) {
                Poll::Ready(Some(Ok(data))) => {
                    self.body.extend_from_slice(&data);
                    receive.flow_control().release_capacity(data.len()).unwrap();
                }
                Poll::Ready(Some(Err(error))) => self.over = Some(Err(error.to_string())),
                Poll::Ready(None) => self.over = Some(Ok(())),
                Poll::Pending => break,
            }
        }
    }
}
