//! `bench queues`: what a queue with a few messages costs when there are very many, in memory and after a kill.
//!
//! Every message is persistent and confirmed. Then the server is killed and started again, and some of the queues are
//! emptied. Invariant: it ends only if these have their messages, all and in order.

mod report;

use std::time::Instant;

use anyhow::{Context, ensure};

use crate::args::QueuesArgs;
use crate::cpu::Usage;
use crate::folder::Folder;
use crate::matrix;
use crate::server::Server;
use crate::stomp::client::Client;

use report::Report;

/// Runs `bench queues`.
///
/// # Errors
/// A sentence when the server, a connection, the disk or an argument is at fault.
pub fn run(args: &QueuesArgs) -> anyhow::Result<()> {
    ensure!(args.queues > 0 && args.messages > 0, "--queues and --messages must be above 0");
    let parent = Folder::new(args.directory.as_deref(), "queues")?;
    let directory = parent.below("store")?;
    let sections = format!(
        "[store]\ndirectory = {:?}\nsync = {:?}\n[queues]\nprincipal_queues_max = 0\n",
        directory.path, args.sync
    );
    let server = Server::start(args.server.as_ref(), &sections, &args.settings)?;
    let bar = matrix::progress_bar();
    bar.set_length(args.queues);
    let mut found = Found { idle: resident(&server)?, ..Found::default() };
    let begun = Instant::now();
    let mut client = Client::connect(server.address)?;
    bar.set_message("filling");
    let (mut asked, mut heard) = (0, 0);
    for first in (0..args.queues).step_by(AT_ONCE) {
        let numbers = first..args.queues.min(first + AT_ONCE as u64);
        client.say(&sends(args, numbers))?;
        asked += 1;
        if asked - heard > OUTSTANDING {
            client.hear("RECEIPT\n", 1)?;
            heard += 1;
        }
        bar.set_position(first);
        found.filled_peak = found.filled_peak.max(resident(&server)?);
    }
    client.hear("RECEIPT\n", asked - heard)?;
    found.fill_s = begun.elapsed().as_secs_f64();
    found.filled = resident(&server)?;
    // SIGKILL: nothing is written any more.
    drop(server);
    bar.set_message("starting again");
    let begun = Instant::now();
    let server = Server::start(args.server.as_ref(), &sections, &args.settings)
        .context("starting it again")?;
    found.ready_s = begun.elapsed().as_secs_f64();
    let mut client = Client::connect(server.address)?;
    bar.set_message("emptying some");
    for (at, number) in (0..args.queues).step_by(sample(args)).enumerate() {
        take_all(args, &mut client, number)?;
        if at == 0 {
            found.first_s = begun.elapsed().as_secs_f64();
            found.restarted = resident(&server)?;
        }
    }
    bar.finish_and_clear();
    let report = Report::new(args, &found);
    matrix::print(&report.text())?;
    match &args.json {
        Some(path) => crate::report::write(path, &format!("{:#}\n", report.json())),
        None => Ok(()),
    }
}

/// What a run has found: bytes of resident memory, and seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    /// Before the first message.
    idle: u64,
    /// While queues are filled, at most.
    filled_peak: u64,
    /// When all are.
    filled: u64,
    fill_s: f64,
    /// From the start after the kill until connections are taken.
    ready_s: f64,
    /// From there until the messages of the first queue have come.
    first_s: f64,
    /// Then.
    restarted: u64,
}

/// Messages for some queues, the last of them with a receipt: it says that all before it are stored, too.
fn sends(args: &QueuesArgs, numbers: std::ops::Range<u64>) -> String {
    let mut frames = String::new();
    let last = numbers.end - 1;
    for number in numbers {
        for message in 0..args.messages {
            let body = format!("{:<width$}", message, width = args.size);
            let receipt = match number == last && message + 1 == args.messages {
                true => "receipt:r\n",
                false => "",
            };
            frames.push_str(&format!(
                "SEND\ndestination:/queue/bench.{number}\npersistent:true\n{receipt}\n{body}\0"
            ));
        }
    }
    frames
}

/// Takes and settles what is in a queue.
fn take_all(args: &QueuesArgs, client: &mut Client, number: u64) -> anyhow::Result<()> {
    client.say(&format!("SUBSCRIBE\nid:c\ndestination:/queue/bench.{number}\nack:client\n\n\0"))?;
    let ack = client.messages(args.messages)?;
    client.say(&format!("ACK\nid:{ack}\nreceipt:a\n\n\0UNSUBSCRIBE\nid:c\nreceipt:u\n\n\0"))?;
    client.hear("RECEIPT\n", 2)
}

/// One queue in so many is emptied.
fn sample(args: &QueuesArgs) -> usize {
    usize::try_from(args.queues.div_ceil(SAMPLES)).unwrap_or(usize::MAX)
}

fn resident(server: &Server) -> anyhow::Result<u64> {
    let usage = Usage::of(&[server.pid()]).context("cannot read the server's memory")?;
    Ok(usage.rss_bytes)
}

/// Queues whose messages are sent in one write.
const AT_ONCE: usize = 100;
/// Receipts that may be under way.
const OUTSTANDING: u64 = 20;
/// Queues that are emptied after the restart.
const SAMPLES: u64 = 1_000;
