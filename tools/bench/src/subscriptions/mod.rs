//! `bench subscriptions`: what a message costs that very many durable subscriptions gather, on the disk and in memory.
//!
//! One topic feeds them all. Messages are published while nobody is connected to a subscription, each confirmed before the next;
//! then each subscription acknowledges what it has. Invariant: it ends only if each has got every message.

mod report;

use std::time::Instant;

use anyhow::{Context, ensure};

use crate::args::SubscriptionsArgs;
use crate::cpu::Usage;
use crate::folder::Folder;
use crate::matrix;
use crate::scrape;
use crate::server::Server;
use crate::stomp::client::Client;

use report::Report;

/// Runs `bench subscriptions`.
///
/// # Errors
/// A sentence when the server, a connection, the disk or an argument is at fault.
pub fn run(args: &SubscriptionsArgs) -> anyhow::Result<()> {
    ensure!(
        args.subscriptions > 0 && args.messages > 0,
        "--subscriptions and --messages must be above 0"
    );
    let parent = Folder::new(args.directory.as_deref(), "subscriptions")?;
    let directory = parent.below("store")?;
    let sections = sections(args, &directory);
    let server = Server::start(args.server.as_ref(), &sections, &args.settings)?;
    let bar = matrix::progress_bar();
    bar.set_length(args.subscriptions);
    bar.set_message("subscriptions");
    let mut client = Client::connect(server.address)?;
    for first in (0..args.subscriptions).step_by(AT_ONCE) {
        let numbers = first..args.subscriptions.min(first + AT_ONCE as u64);
        for number in numbers.clone() {
            client.say(&format!(
                "SUBSCRIBE\nid:s{number}\ndestination:/topic/bench\npersistent:true\nreceipt:b\n\n\0\
                 UNSUBSCRIBE\nid:s{number}\nreceipt:e\n\n\0"
            ))?;
        }
        client.hear("RECEIPT\n", 2 * (numbers.end - numbers.start))?;
        bar.set_position(numbers.end);
    }
    let before = Stand::of(&server)?;
    let begun = Instant::now();
    let body = "x".repeat(args.size);
    for _ in 0..args.messages {
        client.say(&format!(
            "SEND\ndestination:/topic/bench\npersistent:true\nreceipt:r\n\n{body}\0"
        ))?;
        client.hear("RECEIPT\n", 1)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let gathered = Stand::of(&server)?;
    bar.set_message("acknowledging");
    for number in 0..args.subscriptions {
        client.say(&format!("SUBSCRIBE\nid:c\ndestination:/dsub/s{number}\nack:client\n\n\0"))?;
        let ack = client.messages(args.messages)?;
        client.say(&format!("ACK\nid:{ack}\nreceipt:a\n\n\0UNSUBSCRIBE\nid:c\nreceipt:u\n\n\0"))?;
        client.hear("RECEIPT\n", 2)?;
        bar.set_position(number);
    }
    bar.finish_and_clear();
    let settled = Stand::of(&server)?;
    let report = Report::new(args, seconds, (&before, &gathered, &settled));
    matrix::print(&report.text())?;
    match &args.json {
        Some(path) => crate::report::write(path, &format!("{:#}\n", report.json())),
        None => Ok(()),
    }
}

/// What the server's configuration has besides its address: room for all of it in memory, whether it is shared or not.
fn sections(args: &SubscriptionsArgs, directory: &Folder) -> String {
    let each = args.size as u64 + 2048;
    let memory = args.subscriptions * (args.messages * each + 8192) + (256 << 20);
    format!(
        "[memory]\nmessages_bytes_max = \"{} MiB\"\n[store]\ndirectory = {:?}\nsync = {:?}\n\
         [subscriptions]\nprincipal_max = {max}\ncount_max = {max}\n",
        memory >> 20,
        directory.path,
        args.sync,
        max = args.subscriptions.max(1_000),
    )
}

/// What has been written, and what is in memory.
#[derive(Debug, Clone, Copy, Default)]
struct Stand {
    written: u64,
    resident: u64,
}

impl Stand {
    fn of(server: &Server) -> anyhow::Result<Stand> {
        let written = scrape::metric(server.address, "tiderace_store_bytes_written_total");
        let usage = Usage::of(&[server.pid()]).context("cannot read the server's memory")?;
        let written = written.context("the server does not tell what it has written")?;
        Ok(Stand { written, resident: usage.rss_bytes })
    }
}

/// Subscriptions that are asked for before their answers are waited for.
const AT_ONCE: usize = 256;
