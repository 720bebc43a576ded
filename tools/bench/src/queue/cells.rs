//! The cells of `bench queue`: what each one sends and takes, and the figures that come of it.
//!
//! Invariant: a figure of the bare disk was measured right after what it is compared with.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::ensure;

use crate::args::QueueArgs;
use crate::queue::disk::{self, Sequential};
use crate::queue::figures::{Bare, Figures, Restart};
use crate::queue::load::{self, Passed, Senders, Stand, Takers};
use crate::queue::site::{Site, Written};

/// What is measured together on a server that has just begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// One producer, nobody takes; then one consumer, nobody sends.
    Load,
    /// Both at a time.
    LoadAndUnload,
    /// So many producers, each of which waits for every receipt, beside a consumer.
    Waiting(usize),
    /// Two consumers, of which one takes its time.
    SlowConsumer,
    /// A consumer who wants one message in very many, then a browser who is shown all that are left.
    Selector,
    /// Large messages.
    Large,
    /// A queue of very many messages, which is killed and comes back before it is emptied.
    Deep,
}

/// All of them, by name.
pub(super) const CELLS: [(&str, Cell); 9] = [
    ("load", Cell::Load),
    ("load-and-unload", Cell::LoadAndUnload),
    ("one-waiting", Cell::Waiting(1)),
    ("producers-10", Cell::Waiting(10)),
    ("producers-100", Cell::Waiting(100)),
    ("slow-consumer", Cell::SlowConsumer),
    ("selectors", Cell::Selector),
    ("large", Cell::Large),
    ("deep", Cell::Deep),
];

/// What all cells of a round have in common.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) args: &'a QueueArgs,
    /// Where the bare disk is measured; `None` if it is not.
    pub(super) disk: Option<&'a Path>,
    pub(super) sequential: Option<Sequential>,
}

impl Cell {
    /// Bytes of bodies that it may leave in a queue.
    pub(super) fn bytes(self, args: &QueueArgs) -> u64 {
        let (messages, size) = match self {
            Cell::Deep => (args.depth, args.size),
            Cell::Large => (large_messages(args), args.large),
            _ => (args.messages, args.size),
        };
        messages.saturating_mul(size as u64)
    }

    /// Runs it.
    ///
    /// # Errors
    /// A sentence when a connection, the server or the disk is at fault.
    pub(super) fn run(
        self,
        name: &'static str,
        site: &mut Site<'_>,
        around: &Surroundings<'_>,
    ) -> anyhow::Result<Vec<Figures>> {
        let args = around.args;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let run = u16::try_from(since & 0xFFF).unwrap_or(0);
        let mut work = Work { queue: site.queue(name), site, around, name, run };
        let one = Senders {
            connections: 1,
            window: args.window,
            messages: args.messages,
            size: args.size,
            pick_every: None,
        };
        let taker = Takers { headers: args.subscribe_header.clone(), ..Takers::default() };
        match self {
            Cell::Load => work.load(("load", "unload"), &one, taker, false),
            Cell::LoadAndUnload => work.both(&one, &taker),
            Cell::Waiting(connections) => {
                work.both(&Senders { connections, window: 1, ..one }, &taker)
            }
            Cell::SlowConsumer => {
                let slow = Some(Duration::from_millis(args.slow));
                work.slow_consumer(&one, &Takers { slow, ..taker })
            }
            Cell::Selector => work.selector(&one, &taker),
            Cell::Large => {
                let window = args.window.min(LARGE_WINDOW);
                let messages = large_messages(args);
                work.both(&Senders { size: args.large, messages, window, ..one }, &taker)
            }
            Cell::Deep => {
                let deep = Senders { messages: args.depth, ..one };
                work.load(("deep-in", "deep-out"), &deep, taker, true)
            }
        }
    }
}

/// As many large messages as have the bytes of the others.
fn large_messages(args: &QueueArgs) -> u64 {
    let bytes = args.messages.saturating_mul(args.size as u64);
    (bytes / args.large.max(1) as u64).max(LARGE_MESSAGES_MIN)
}

/// A cell at work on a queue of its own.
struct Work<'s, 'a> {
    site: &'s mut Site<'a>,
    around: &'s Surroundings<'s>,
    name: &'static str,
    queue: String,
    run: u16,
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
impl Work<'_, '_> {
    /// Sends everything, then takes everything; our own server may be killed in between.
    fn load(
        &mut self,
        (loading, unloading): (&'static str, &'static str),
        senders: &Senders,
        takers: Takers,
        is_killed: bool,
    ) -> anyhow::Result<Vec<Figures>> {
        let before = self.site.written();
        let sent = self.pass(Some(senders), None)?;
        let written = Written::between(before, self.site.written());
        let load = self.sending(loading, &sent, senders, written)?;
        let begun = Instant::now();
        let is_restarted = is_killed && !self.around.args.volatile && self.site.restart()?;
        let ready_s = begun.elapsed().as_secs_f64();
        let takers = Takers { expected: Some(sent.sent), ..takers };
        let taken = self.pass(None, Some(&takers))?;
        let mut unload = self.figures(unloading);
        unload.rated(taken.received, taken.received_s);
        unload.accounted(&taken, taken.received);
        unload.restart = is_restarted.then(|| Restart {
            ready_s,
            first_s: taken.began.duration_since(begun).as_secs_f64() + taken.first_s,
            rss_bytes: taken.memory.first().map_or(0, |(_, bytes)| *bytes),
        });
        let bytes = record_bytes(written, &sent, senders);
        let sequential = self.around.sequential.filter(|_| !self.around.args.volatile);
        unload.bare = sequential
            .and_then(|sequential| sequential.read_per_s)
            .map(|per_s| Bare { per_s: per_s / bytes, sync_ns: None });
        Ok(vec![load, unload])
    }

    /// Sends and takes at a time.
    fn both(&self, senders: &Senders, takers: &Takers) -> anyhow::Result<Vec<Figures>> {
        let before = self.site.written();
        let passed = self.pass(Some(senders), Some(takers))?;
        let written = Written::between(before, self.site.written());
        let mut figures = self.sending(self.name, &passed, senders, written)?;
        // What went through the queue is what has come out of it.
        figures.rated(passed.received, passed.received_s.max(passed.confirmed_s));
        Ok(vec![figures])
    }

    fn slow_consumer(&self, senders: &Senders, takers: &Takers) -> anyhow::Result<Vec<Figures>> {
        let passed = self.pass(Some(senders), Some(takers))?;
        let mut figures = self.figures(self.name);
        let by_fast = passed.received.saturating_sub(passed.by_slow);
        figures.rated(by_fast, passed.received_s.max(passed.confirmed_s));
        figures.accounted(&passed, passed.received);
        figures.remark(format!("{} of {} went to the slow one", passed.by_slow, passed.sent));
        // What the slow one has not settled is in the queue again.
        self.clear(takers, passed.by_slow)?;
        Ok(vec![figures])
    }

    /// Fills a queue, has everything in it looked at for the few messages that are wanted, then shown to a browser.
    fn selector(&self, senders: &Senders, takers: &Takers) -> anyhow::Result<Vec<Figures>> {
        let every = self.around.args.pick_every.max(1);
        let sent =
            self.pass(Some(&Senders { pick_every: Some(every), ..senders.clone() }), None)?;
        let wanted = sent.sent.div_ceil(every);
        let mut choosing = Takers { expected: Some(wanted), ..takers.clone() };
        choosing.headers.push("selector:pick = '1'".to_owned());
        let chosen = self.pass(None, Some(&choosing))?;
        ensure!(chosen.received <= wanted, "this server does not know selectors");
        let mut figures = self.figures(self.name);
        // When the last that is wanted has come, all before it have been looked at.
        let looked_at = wanted.saturating_sub(1) * every + 1;
        figures.rated(looked_at, chosen.received_s);
        figures.accounted(&chosen, looked_at);
        figures.remark(format!("{} of {} wanted", chosen.received, sent.sent));
        let left = sent.sent.saturating_sub(chosen.received);
        let browsed = self.site.is_ours().then(|| self.browse(takers, left)).transpose()?;
        self.clear(takers, left)?;
        Ok([Some(figures), browsed].into_iter().flatten().collect())
    }

    /// Shows a browser everything in the queue. Only our own server is asked: others know no browsers, or take
    /// `browser:true` for a consumer's and let it have the messages.
    fn browse(&self, takers: &Takers, messages: u64) -> anyhow::Result<Figures> {
        let mut browsing = Takers { expected: Some(messages), ..takers.clone() };
        browsing.headers.push("browser:true".to_owned());
        let shown = self.pass(None, Some(&browsing))?;
        let mut figures = self.figures("browser");
        figures.rated(shown.received, shown.received_s);
        figures.accounted(&shown, shown.received);
        Ok(figures)
    }

    /// Takes what a cell has left in a queue of another's server, which goes on running.
    fn clear(&self, takers: &Takers, messages: u64) -> anyhow::Result<()> {
        if !self.site.is_ours() && messages > 0 {
            let rest = Takers { expected: Some(messages), slow: None, ..takers.clone() };
            self.pass(None, Some(&rest))?;
        }
        Ok(())
    }

    /// The figures of confirmed sending, beside those of the bare disk.
    fn sending(
        &self,
        name: &'static str,
        passed: &Passed,
        senders: &Senders,
        written: Option<Written>,
    ) -> anyhow::Result<Figures> {
        let args = self.around.args;
        let mut figures = self.figures(name);
        figures.rated(passed.confirmed, passed.confirmed_s);
        figures.accounted(passed, passed.confirmed);
        let synced = written.filter(|written| written.syncs > 0 && passed.confirmed > 0);
        figures.per_sync = synced.map(|written| passed.confirmed as f64 / written.syncs as f64);
        let Some(folder) = self.around.disk.filter(|_| !args.volatile) else {
            return Ok(figures);
        };
        let bytes = record_bytes(written, passed, senders);
        if args.sync == "always" {
            // Of a server that does not tell: no group can be larger than what was under way.
            let outstanding = senders.window * senders.connections as u64;
            let group = figures.per_sync.unwrap_or(outstanding as f64).round().max(1.0) as u64;
            let commit = disk::group_commit(folder, bytes.round() as usize, group, COMMIT_SPAN)?;
            let sync_ns = Some(commit.sync_p50_ns as f64);
            figures.bare = Some(Bare { per_s: commit.records_per_s, sync_ns });
        } else if let Some(sequential) = self.around.sequential {
            figures.bare = Some(Bare { per_s: sequential.write_per_s / bytes, sync_ns: None });
        }
        Ok(figures)
    }

    fn figures(&self, name: &'static str) -> Figures {
        Figures::new(name, &self.site.target.name)
    }

    fn pass(&self, senders: Option<&Senders>, takers: Option<&Takers>) -> anyhow::Result<Passed> {
        let stand = Stand {
            target: &self.site.target,
            args: self.around.args,
            destination: self.queue.clone(),
            run: self.run,
        };
        load::pass(&stand, senders, takers)
    }
}

/// What the log has for each message: as it was counted, or the body and the least of headers.
#[allow(clippy::cast_precision_loss)]
fn record_bytes(written: Option<Written>, passed: &Passed, senders: &Senders) -> f64 {
    let counted = written.filter(|written| written.bytes > 0 && passed.confirmed > 0);
    counted.map_or((senders.size + HEADERS_BYTES) as f64, |written| {
        written.bytes as f64 / passed.confirmed as f64
    })
}

/// How long the bare disk works beside each cell.
const COMMIT_SPAN: Duration = Duration::from_millis(400);
const LARGE_WINDOW: u64 = 8;
const LARGE_MESSAGES_MIN: u64 = 8;
const HEADERS_BYTES: usize = 64;
