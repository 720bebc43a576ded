//! What this machine does without a server: a bare loopback writer, read by the fan-out's reader.
//!
//! The writer is this program started again, so that its CPU is accounted apart. It writes blocks
//! of ready-made WebSocket messages to all its sockets in turn; nothing a server does is in it.
//! Invariant: the reading side is the same code that reads a server in `fanout`.

use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use indicatif::ProgressBar;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::args::{AckMode, BareArgs, BareWriterArgs};
use crate::body::HEAD_BYTES;
use crate::child::Child;
use crate::clock::{Clock, Window};
use crate::matrix;
use crate::random::Random;
use crate::report::table::{self, rate};
use crate::report::{Cell, Run, text};
use crate::stomp::cell::{self, CONNECTIONS_MAX, CellSpec, Kind, source_address};
use crate::stomp::connect::{Link, dial};
use crate::stomp::consumer::{self, Consumer};
use crate::stomp::counters::{Check, Counters};
use crate::stomp::inbound::Inbound;
use crate::stomp::shared::Shared;
use crate::stomp::watch::{Observation, Watch};
use crate::target::Target;

/// Runs `bench bare`.
///
/// # Errors
/// A sentence when the child or a connection fails.
pub fn run(args: &BareArgs) -> anyhow::Result<()> {
    let bar = matrix::progress_bar();
    let run = if args.forwarder { forwarder(args, &bar)? } else { writer(args, &bar)? };
    bar.finish_and_clear();
    matrix::print(&text::details(&run))?;
    run.write_files(&args.output)
}

/// What to write, to how many.
#[derive(Debug, Clone, Copy)]
pub struct BareSpec {
    /// Sockets.
    pub connections: usize,
    /// Body bytes of a message.
    pub size: usize,
    /// Bytes of a write.
    pub write_bytes: usize,
    /// Writes per second, each to a socket chosen by chance; as many as are taken if absent.
    pub rate: Option<u64>,
    /// Seconds before measuring.
    pub warm_up_s: u64,
    /// Seconds measured.
    pub duration_s: u64,
}

/// Measures a bare writer.
///
/// # Errors
/// A sentence when the child or a connection fails.
pub fn measure(spec: BareSpec, bar: &ProgressBar) -> anyhow::Result<Observation> {
    ensure!(spec.connections <= CONNECTIONS_MAX, "--connections must be at most {CONNECTIONS_MAX}");
    ensure!(spec.size >= HEAD_BYTES, "--size must be at least {HEAD_BYTES}");
    bar.set_prefix("bare writer");
    let seconds = spec.warm_up_s + spec.duration_s + 30;
    let arguments: Vec<String> = [
        ("--connections", Some(spec.connections as u64)),
        ("--size", Some(spec.size as u64)),
        ("--write-bytes", Some(spec.write_bytes as u64)),
        ("--rate", spec.rate),
        ("--seconds", Some(seconds)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .flat_map(|(name, value)| [name.to_owned(), value.to_string()])
    .collect();
    let child = Child::start(&[vec!["bare-writer".to_owned()], arguments].concat())?;
    let consumers = (0..spec.connections)
        .map(|index| {
            let stream = dial(child.address, Some(source_address(index)))?;
            let link = Link { stream, inbound: Inbound::new(true, Vec::new()) };
            Ok(Consumer::new(link, 0, AckMode::Auto))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let clock = Clock::start();
    let window = Window::opening_at(clock.now_ns(), spec.warm_up_s, spec.duration_s);
    let shared = Arc::new(Shared::new(clock, window));
    let counters = Counters::new(&shared, Check::None, 0, 0);
    let reader = {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || consumer::run(consumers, counters, &shared))
    };
    let observed = Watch::of_processes(vec![child.pid()], &shared, true).observe(bar);
    shared.stop.store(true, Relaxed);
    reader.join().map_err(|_| anyhow!("the reading thread panicked; please report it"))??;
    if let Some(problem) = shared.problem() {
        return Err(anyhow!(problem).context("the bare baseline failed"));
    }
    Ok(observed)
}

/// The figures of a bare writer as one line.
pub fn figures(observed: &Observation) -> String {
    #[allow(clippy::cast_precision_loss)]
    let megabytes_per_s = observed.consumed_bytes as f64 / observed.seconds / 1e6;
    format!(
        "{megabytes_per_s:.0} MB/s, {} messages/s, {} µs writer CPU per message",
        rate(observed.consumed_per_s()),
        table::microseconds(observed.server_us_per_delivery())
    )
}

fn writer(args: &BareArgs, bar: &ProgressBar) -> anyhow::Result<Run> {
    let spec = BareSpec {
        connections: args.connections,
        size: args.size,
        write_bytes: args.write_bytes,
        rate: args.rate,
        warm_up_s: args.warm_up,
        duration_s: args.duration,
    };
    let observed = measure(spec, bar)?;
    let mut run = Run::new(&args.output.label, Vec::new());
    let name = format!(
        "bare writer, {} sockets, {}-byte bodies, {}-byte writes{}",
        args.connections,
        args.size,
        args.write_bytes,
        args.rate.map_or_else(String::new, |rate| format!(", {rate} of them a second"))
    );
    run.notes.push((name, figures(&observed)));
    run.notes.extend(observed.bottleneck().map(|text| ("remark".to_owned(), text)));
    Ok(run)
}

fn forwarder(args: &BareArgs, bar: &ProgressBar) -> anyhow::Result<Run> {
    let seconds = args.warm_up + args.duration + 90;
    let child = Child::start(&["forwarder".into(), "--seconds".into(), seconds.to_string()])?;
    let target = Target::local("forwarder", child.address, child.pid());
    let spec = CellSpec {
        kind: Kind::Topic,
        producers: args.producers,
        consumers: args.consumers,
        size: if args.size == 1024 { 20 } else { args.size },
        warm_up_s: args.warm_up,
        duration_s: args.duration,
        ..CellSpec::default()
    };
    let outcome = cell::run(&target, &spec, bar)?;
    let mut run = Run::new(&args.output.label, vec![target.name]);
    run.cells.push(Cell { spec, published: None, outcomes: vec![Ok(outcome)] });
    Ok(run)
}

/// The child: accepts, then writes until its time is over or nobody reads any more.
///
/// # Errors
/// Those of its sockets.
pub fn run_writer(args: &BareWriterArgs) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let listener = TcpListener::bind("127.0.0.1:0").context("no loopback port is free")?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", listener.local_addr()?)?;
    out.flush()?;
    drop(out);
    let (block, block_bytes) = block(args.size, args.write_bytes);
    let mut poll = Poll::new()?;
    let mut sockets: Vec<Socket> = Vec::with_capacity(args.connections);
    while sockets.len() < args.connections {
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let file = stream.as_raw_fd();
        let token = Token(sockets.len());
        poll.registry().register(&mut SourceFd(&file), token, Interest::WRITABLE)?;
        sockets.push(Socket { stream, at: 0, is_blocked: false });
    }
    match args.rate {
        Some(rate) => write_paced(&mut sockets, &block, block_bytes, rate, end),
        None => write_all(&mut sockets, &block, block_bytes, &mut poll, end)?,
    }
    Ok(())
}

/// Writes to all sockets in turn, as much as they take.
fn write_all(
    sockets: &mut [Socket],
    block: &[u8],
    block_bytes: usize,
    poll: &mut Poll,
    end: Instant,
) -> anyhow::Result<()> {
    let mut events = Events::with_capacity(1024);
    while Instant::now() < end {
        let mut has_written = false;
        for socket in &mut *sockets {
            match socket.write(block, block_bytes) {
                Ok(written) => has_written |= written,
                // The reader has what it wanted.
                Err(_) => return Ok(()),
            }
        }
        let timeout = if has_written { Duration::ZERO } else { Duration::from_millis(100) };
        match poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        for event in &events {
            if let Some(socket) = sockets.get_mut(event.token().0) {
                socket.is_blocked = false;
            }
        }
    }
    Ok(())
}

/// Writes so often a second, each time to a socket chosen by chance: what a server has to do whose
/// clients each get little now and then. Who is slow misses a write.
fn write_paced(sockets: &mut [Socket], block: &[u8], block_bytes: usize, rate: u64, end: Instant) {
    let (start, mut written, mut random) = (Instant::now(), 0, Random(1));
    while Instant::now() < end && !sockets.is_empty() {
        let due = start.elapsed().as_micros() as u64 * rate / 1_000_000;
        while written < due {
            written += 1;
            let place = random.below(sockets.len() as u64) as usize;
            let Some(socket) = sockets.get_mut(place) else { return };
            socket.is_blocked = false;
            if socket.write(block, block_bytes).is_err() {
                return;
            }
        }
        std::thread::sleep(PACE);
    }
}

/// Between two looks at what is due.
const PACE: Duration = Duration::from_micros(500);

struct Socket {
    stream: TcpStream,
    /// Offset in the block at which the next write begins.
    at: usize,
    is_blocked: bool,
}

impl Socket {
    fn write(&mut self, block: &[u8], block_bytes: usize) -> io::Result<bool> {
        if self.is_blocked {
            return Ok(false);
        }
        match self.stream.write(block.get(self.at..self.at + block_bytes).unwrap_or_default()) {
            Ok(written) => {
                self.at = (self.at + written) % block_bytes;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_blocked = true;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whole messages for one write, twice over, so that a write may begin anywhere; and its length.
fn block(size: usize, write_bytes: usize) -> (Vec<u8>, usize) {
    let stomp = format!(
        "MESSAGE\nsubscription:0\nmessage-id:1\ndestination:/topic/bench.0\ncontent-length:{size}\n\n{}\0",
        "0".repeat(size)
    );
    let mut message = vec![0x81];
    match (u8::try_from(stomp.len()), u16::try_from(stomp.len())) {
        (Ok(short @ 0..=125), _) => message.push(short),
        (_, Ok(medium)) => {
            message.push(126);
            message.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            message.push(127);
            message.extend_from_slice(&(stomp.len() as u64).to_be_bytes());
        }
    }
    message.extend_from_slice(stomp.as_bytes());
    let count = (write_bytes / message.len()).max(1);
    (message.repeat(2 * count), count * message.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_whole_messages_twice() {
        let (block, bytes) = block(1024, 65_536);
        assert_eq!(block.len(), 2 * bytes);
        assert!(bytes <= 65_536 && bytes > 64_000);
        assert_eq!(block.iter().filter(|byte| **byte == 0x81).count() % 2, 0);
        assert_eq!(block.get(bytes), Some(&0x81));
    }
}
