//! `bench connections`: many idle WebSocket STOMP connections, each with one subscription.
//!
//! Invariant: the server's memory is read before the first and after the last connection, with
//! nothing else going on between.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use indicatif::ProgressBar;

use crate::args::{AckMode, ConnectionsArgs};
use crate::cpu::{self, Usage};
use crate::machine;
use crate::matrix;
use crate::report::table::thousands;
use crate::report::{Run, text};
use crate::stomp::cell::{CONNECTIONS_MAX, source_address};
use crate::stomp::connect::Link;
use crate::target::Target;

/// Runs `bench connections`.
///
/// # Errors
/// A sentence when the limits do not allow it or a connection fails.
pub fn run(args: &ConnectionsArgs) -> anyhow::Result<()> {
    ensure!(
        args.count <= CONNECTIONS_MAX,
        "--count must be at most {CONNECTIONS_MAX}: a process may open 20,000 files on many systems; start several"
    );
    machine::ensure_open_files(args.count)?;
    let targets = Target::all(&args.target)?;
    let mut run =
        Run::new(&args.output.label, targets.iter().map(|target| target.name.clone()).collect());
    let bar = matrix::progress_bar();
    for target in &targets {
        let text = measure(target, args, &bar)?;
        run.notes.push((target.name.clone(), text));
    }
    bar.finish_and_clear();
    matrix::print(&text::details(&run))?;
    run.write_files(&args.output)
}

fn measure(target: &Target, args: &ConnectionsArgs, bar: &ProgressBar) -> anyhow::Result<String> {
    let pids = match target.pids.as_slice() {
        [] => cpu::pids_listening_on(target.address.port()),
        pids => pids.to_vec(),
    };
    let memory = || Usage::of(&pids).map(|usage| usage.rss_bytes);
    let before = memory();
    bar.set_prefix(target.name.clone());
    bar.set_length(args.count as u64);
    let (begun, mut links) = (Instant::now(), Vec::with_capacity(args.count));
    for index in 0..args.count {
        let source = target.address.ip().is_loopback().then(|| source_address(index));
        let topic = if args.one_topic { 0 } else { index };
        let mut link = Link::open(target, true, source)
            .with_context(|| format!("connection {} of {}", index + 1, args.count))?;
        link.subscribe(&format!("{}bench.idle.{topic}", target.topic_prefix), AckMode::Auto)?;
        links.push(link);
        bar.set_position(index as u64 + 1);
    }
    let opened = begun.elapsed();
    bar.set_message("holding");
    std::thread::sleep(Duration::from_secs(args.hold));
    let after = memory();
    let memory = match before.zip(after) {
        Some((before, after)) => format!(
            "server RSS {} → {} KiB, {} bytes per connection",
            thousands(before / 1024),
            thousands(after / 1024),
            thousands(after.saturating_sub(before) / args.count.max(1) as u64)
        ),
        None => "server process not found; name it with --server-pid".to_owned(),
    };
    #[allow(clippy::cast_precision_loss)]
    let rate = args.count as f64 / opened.as_secs_f64();
    Ok(format!(
        "{} idle WebSocket connections with a subscription each, opened at {rate:.0} /s; {memory}",
        thousands(links.len() as u64)
    ))
}
