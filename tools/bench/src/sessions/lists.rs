//! What lists of all sessions cost: how long a page takes, and how much longer turns are while one is made.
//!
//! Spans of turns with lists alternate with spans of turns without them, so that both see the same machine. Relies on the
//! caller for the shard and its clients, of whom one asks.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use hdrhistogram::Histogram;
use tiderace_native::codec::{ClientMessage, OperateMessage};
use tiderace_reactor::Shard;

use super::clients::{Clients, ClientsDriver};
use crate::report::table::thousands;

/// What was found.
#[derive(Debug)]
pub(super) struct Lists {
    sessions: u64,
    /// From the question to its answer, ns.
    pages: Histogram<u64>,
    /// Turns during lists, and others, ns.
    with: Histogram<u64>,
    without: Histogram<u64>,
}

/// Asks for so many lists, each of the page of those for which most waits.
///
/// # Errors
/// A sentence when a list does not come, or is none of all sessions.
pub(super) fn measure(
    shard: &mut Shard<ClientsDriver>,
    clients: &Rc<RefCell<Clients>>,
    lists: usize,
) -> anyhow::Result<Lists> {
    let histogram = || Histogram::new_with_bounds(1, 100_000_000_000, 3);
    let mut found = Lists {
        sessions: clients.borrow().counts.accepted as u64,
        pages: histogram()?,
        with: histogram()?,
        without: histogram()?,
    };
    for request in 1..=lists as u32 {
        let begun = Instant::now();
        clients.borrow_mut().ask(question(SUBSCRIBED + request));
        let answer = loop {
            turn(shard, &mut found.with)?;
            if let Some(answer) = clients.borrow_mut().answer() {
                break answer;
            }
            if begun.elapsed() >= TIMEOUT {
                let heard = clients.borrow_mut().heard();
                bail!("a list of sessions does not come: {}", String::from_utf8_lossy(&heard));
            }
        };
        let took = begun.elapsed();
        found.pages.saturating_record(took.as_nanos() as u64);
        ensure!(
            matched(&answer) == Some(found.sessions),
            "a list is none of all sessions: {}",
            String::from_utf8_lossy(&answer)
        );
        let end = Instant::now() + took.max(QUIET_MIN);
        while Instant::now() < end {
            turn(shard, &mut found.without)?;
        }
    }
    Ok(found)
}

impl Lists {
    /// In a sentence.
    pub(super) fn note(&self) -> String {
        let ms = |histogram: &Histogram<u64>, quantile: f64| {
            histogram.value_at_quantile(quantile) as f64 / 1e6
        };
        let turns = |histogram: &Histogram<u64>| {
            format!(
                "p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms",
                ms(histogram, 0.5),
                ms(histogram, 0.99),
                ms(histogram, 0.999)
            )
        };
        format!(
            "{} lists of the 50 of {} sessions for which most waits: a page after p50 {:.1} ms, at most {:.1} ms; \
             turns during lists {}, others {}",
            self.pages.len(),
            thousands(self.sessions),
            ms(&self.pages, 0.5),
            self.pages.max() as f64 / 1e6,
            turns(&self.with),
            turns(&self.without),
        )
    }
}

fn turn(shard: &mut Shard<ClientsDriver>, lengths: &mut Histogram<u64>) -> anyhow::Result<()> {
    let begun = Instant::now();
    shard.turn().context("a turn failed")?;
    lengths.saturating_record(begun.elapsed().as_nanos() as u64);
    Ok(())
}

fn question(request: u32) -> Vec<u8> {
    let operation = r#"{"do":"sessions","sort":"backlog","limit":50}"#;
    let mut message = Vec::new();
    ClientMessage::Operate(OperateMessage { request, operation, body: None }).write(&mut message);
    message
}

/// How many sessions an answer says that there are.
fn matched(answer: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(answer);
    let (_, behind) = text.split_once("\"matched\":")?;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// The number of the last request that a client makes as it comes.
const SUBSCRIBED: u32 = 1;
/// Longest time until a list has come.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Shortest span without lists between two of them.
const QUIET_MIN: Duration = Duration::from_millis(50);
