//! The one publisher of all topics: each value has the next number of its topic.
//!
//! Invariant: numbers are given in the order in which values are sent, and all are sent over one connection.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use tiderace_client::{Auth, Client, Connection, Content, Destination, Event, Kind, Publish, flag};

use super::checker::body;
use crate::random::Random;

/// A path of a topic.
pub(super) fn path(topic: usize) -> String {
    format!("t/{topic}")
}

/// How many values each topic has got.
pub(super) type Numbers = Arc<Vec<AtomicU64>>;

/// A connection that publishes and waits until that is confirmed.
#[derive(Debug)]
pub(super) struct Publisher {
    connection: Connection<TcpStream>,
}

impl Publisher {
    /// # Errors
    /// A sentence when the server does not answer.
    pub(super) fn connect(address: SocketAddr) -> anyhow::Result<Publisher> {
        let stream = TcpStream::connect(address).context("the source does not answer")?;
        stream.set_nodelay(true)?;
        let mut connection = Connection::new(stream, Client::new("tiderace-bench"));
        connection.open(&address.to_string(), Auth::Anonymous)?;
        Ok(Publisher { connection })
    }

    /// Publishes the next values of topics.
    ///
    /// # Errors
    /// A sentence when one is refused or the connection is lost.
    pub(super) fn publish(
        &mut self,
        topics: &[usize],
        numbers: &[AtomicU64],
    ) -> anyhow::Result<()> {
        for part in topics.chunks(UNDER_WAY) {
            let mut last = 0;
            for topic in part {
                let Some(number) = numbers.get(*topic) else { continue };
                let (path, number) = (path(*topic), number.fetch_add(1, Relaxed) + 1);
                let body = body(&path, number);
                let publish = publication(&path, body.as_bytes());
                let request =
                    self.connection.send(|client, out| client.publish(publish, true, out))?;
                last = request.unwrap_or(last);
            }
            self.confirmed(last)?;
        }
        Ok(())
    }

    fn confirmed(&mut self, request: u32) -> anyhow::Result<()> {
        let (mut is_done, mut refused) = (false, None);
        while !is_done && request != 0 {
            self.connection.receive(|event| match event {
                Event::Done { first, last } => is_done |= (first..=last).contains(&request),
                Event::Refused { slug, sentence, .. } => {
                    refused = Some(format!("{slug}: {sentence}"));
                }
                _ => {}
            })?;
            if let Some(refused) = &refused {
                bail!("the source refuses a publication: {refused}");
            }
        }
        Ok(())
    }
}

/// A value to be kept.
pub(super) fn publication<'a>(path: &'a str, body: &'a [u8]) -> Publish<'a> {
    Publish {
        request: 0,
        flags: Content::Json.bits() | flag::RETAIN,
        destination: Destination::Path(Kind::Topic, path),
        expires_ms: None,
        properties: b"",
        body,
    }
}

/// A thread that publishes to random topics, so many values a second.
#[derive(Debug)]
pub(super) struct Feed {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Feed {
    /// Begins.
    ///
    /// # Errors
    /// A sentence when the source does not answer.
    pub(super) fn start(
        address: SocketAddr,
        numbers: &Numbers,
        per_second: f64,
    ) -> anyhow::Result<Feed> {
        let mut publisher = Publisher::connect(address)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, numbers) = (Arc::clone(&stop), Arc::clone(numbers));
        let thread =
            thread::Builder::new().name("bench-publishing".to_owned()).spawn(move || {
                let (begun, mut sent, mut random) = (Instant::now(), 0u64, Random(1));
                while !stopped.load(Relaxed) {
                    let due = (begun.elapsed().as_secs_f64() * per_second) as u64;
                    let next = || random.below(numbers.len() as u64) as usize;
                    let topics: Vec<usize> =
                        std::iter::repeat_with(next).take((due - sent) as usize).collect();
                    sent = due;
                    publisher.publish(&topics, &numbers)?;
                    thread::sleep(REST);
                }
                Ok(())
            })?;
        Ok(Feed { stop, thread: Some(thread) })
    }

    /// Ends, with all that was sent confirmed.
    ///
    /// # Errors
    /// A sentence when something was refused or the connection was lost.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take();
        let panicked = |_| anyhow!("the publishing thread panicked; please report it");
        thread.map_or(Ok(()), |thread| thread.join().map_err(panicked)?)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// Values that are sent before their confirmations are waited for.
const UNDER_WAY: usize = 256;
const REST: Duration = Duration::from_millis(5);
