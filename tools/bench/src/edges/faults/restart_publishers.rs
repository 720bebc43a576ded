//! Clients that publish through edges, each value to a topic of its own, and keep what they are told of each.
//!
//! Invariant: every publication that was sent is answered once, or counted as not answered.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use tiderace_client::{Auth, Client, Connection, Event};

use super::checker::body;
use super::feed::publication;

/// What publishers were told: the topics.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) confirmed: Vec<String>,
    /// By `upstream-away`: not done.
    pub(super) refused: Vec<String>,
    /// By `outcome-unknown`.
    pub(super) unknown: Vec<String>,
    /// Refused with another code: the words.
    pub(super) others: Vec<String>,
    pub(super) unanswered: usize,
}

/// Threads that publish until they are stopped.
#[derive(Debug)]
pub(super) struct Writers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<anyhow::Result<Answers>>>,
}

impl Writers {
    /// Begins, with so many publishers at the edges in turn.
    ///
    /// # Errors
    /// A sentence when an edge does not answer.
    pub(super) fn start(edges: &[SocketAddr], publishers: usize) -> anyhow::Result<Writers> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (number, address) in edges.iter().cycle().take(publishers).enumerate() {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TURN))?;
            let mut connection = Connection::new(stream, Client::new("tiderace-bench"));
            open(&mut connection, &address.to_string())?;
            let stopped = Arc::clone(&stop);
            threads.push(thread::spawn(move || Writer::new(number).run(&mut connection, &stopped)));
        }
        Ok(Writers { stop, threads })
    }

    /// Ends, and waits for the answers that are under way.
    ///
    /// # Errors
    /// A sentence when a connection to an edge was lost.
    pub(super) fn stop(mut self) -> anyhow::Result<Answers> {
        self.stop.store(true, Relaxed);
        let mut all = Answers::default();
        for thread in self.threads.drain(..) {
            let panicked = |_| anyhow!("a publishing thread panicked; please report it");
            let answers = thread.join().map_err(panicked)??;
            all.confirmed.extend(answers.confirmed);
            all.refused.extend(answers.refused);
            all.unknown.extend(answers.unknown);
            all.others.extend(answers.others);
            all.unanswered += answers.unanswered;
        }
        Ok(all)
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// Logs in, for which one turn may be too short.
fn open(connection: &mut Connection<TcpStream>, authority: &str) -> anyhow::Result<()> {
    connection.stream().set_read_timeout(Some(ANSWERS))?;
    connection.open(authority, Auth::Anonymous)?;
    connection.stream().set_read_timeout(Some(TURN))?;
    Ok(())
}

/// One publisher.
#[derive(Debug)]
struct Writer {
    number: usize,
    sent: usize,
    /// Not before then.
    next: Instant,
    /// Topics by the requests that have not been answered.
    waiting: BTreeMap<u32, String>,
    answers: Answers,
}

impl Writer {
    fn new(number: usize) -> Writer {
        Writer {
            number,
            sent: 0,
            next: Instant::now(),
            waiting: BTreeMap::new(),
            answers: Answers::default(),
        }
    }

    fn run(
        mut self,
        connection: &mut Connection<TcpStream>,
        stop: &AtomicBool,
    ) -> anyhow::Result<Answers> {
        while !stop.load(Relaxed) {
            if self.waiting.len() < UNDER_WAY && Instant::now() >= self.next {
                self.next = Instant::now() + PACE;
                self.publish(connection)?;
            }
            self.hear(connection)?;
        }
        let until = Instant::now() + ANSWERS;
        while !self.waiting.is_empty() && Instant::now() < until {
            self.hear(connection)?;
        }
        self.answers.unanswered = self.waiting.len();
        Ok(self.answers)
    }

    fn publish(&mut self, connection: &mut Connection<TcpStream>) -> anyhow::Result<()> {
        let topic = format!("p/{}/{}", self.number, self.sent);
        self.sent += 1;
        let body = body(&topic, 1);
        let publish = publication(&topic, body.as_bytes());
        let request = connection.send(|client, out| client.publish(publish, true, out))?;
        self.waiting.extend(request.map(|request| (request, topic)));
        Ok(connection.flush()?)
    }

    /// Takes in what comes within a turn.
    fn hear(&mut self, connection: &mut Connection<TcpStream>) -> anyhow::Result<()> {
        let Writer { waiting, answers, .. } = self;
        let heard = connection.receive(|event| match event {
            Event::Done { first, last } => {
                let done: Vec<u32> = waiting.range(first..=last).map(|(known, _)| *known).collect();
                answers.confirmed.extend(done.iter().filter_map(|request| waiting.remove(request)));
            }
            Event::Refused { request, slug, sentence, .. } => {
                let Some(topic) = waiting.remove(&request) else { return };
                match slug {
                    "upstream-away" => answers.refused.push(topic),
                    "outcome-unknown" => answers.unknown.push(topic),
                    _ => answers.others.push(format!("{slug}: {sentence}")),
                }
            }
            _ => {}
        });
        match heard {
            Err(error) if error.is_timeout() => Ok(()),
            heard => Ok(heard?),
        }
    }
}

/// Between two publications of one publisher.
const PACE: Duration = Duration::from_millis(10);
const UNDER_WAY: usize = 16;
/// How long an answer is waited for before the next publication.
const TURN: Duration = Duration::from_millis(10);
/// Longer than an edge keeps a request.
const ANSWERS: Duration = Duration::from_secs(30);
