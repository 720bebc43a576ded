//! All children of `bench connections` together.
//!
//! Invariant: a child never outlives this handle.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::args::ConnectionsArgs;
use crate::connections::path;
use crate::connections::worker::LevelResult;

/// The children.
#[derive(Debug)]
pub(crate) struct Processes {
    workers: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Processes {
    /// Starts the children; they connect at once.
    pub(crate) fn start(
        args: &ConnectionsArgs,
        addresses: &[SocketAddr],
        topics: usize,
    ) -> anyhow::Result<Processes> {
        let mut processes = Processes { workers: Vec::new() };
        let mut first = 0;
        for (at, address) in addresses.iter().enumerate() {
            // As even as whole numbers allow.
            let here = args.count * (at + 1) / addresses.len() - args.count * at / addresses.len();
            let workers = here.div_ceil(PER_WORKER);
            for worker in 0..workers {
                let count = here * (worker + 1) / workers - here * worker / workers;
                processes.workers.push(Worker::start(args, *address, topics, first, count)?);
                first += count;
            }
        }
        Ok(processes)
    }

    /// Waits until all clients listen.
    pub(crate) fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        for worker in &mut self.workers {
            let line = worker.line()?;
            if line.trim() != "ready" {
                bail!("the clients could not all connect; the error is above");
            }
        }
        Ok(())
    }

    /// Lets all measure for so long.
    pub(crate) fn level(&mut self, seconds: u64) -> anyhow::Result<()> {
        for worker in &mut self.workers {
            writeln!(worker.orders, "level {seconds}").context("a client process has ended")?;
        }
        Ok(())
    }

    /// What all have measured.
    pub(crate) fn results(&mut self) -> anyhow::Result<LevelResult> {
        let mut sum = LevelResult::new();
        for worker in &mut self.workers {
            let line = worker.line()?;
            sum.add(&serde_json::from_str(&line).context("a client process has ended")?);
        }
        Ok(sum)
    }
}

impl Worker {
    fn start(
        args: &ConnectionsArgs,
        address: SocketAddr,
        topics: usize,
        first: usize,
        count: usize,
    ) -> anyhow::Result<Worker> {
        let program =
            std::env::current_exe().context("cannot find this program to start it again")?;
        // What stands before the scenario's name, such as `bench` in `tiderace bench connections`.
        let mounted = std::env::args().skip(1).take_while(|word| word != "connections");
        let word = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
            value().map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        let mut process = Command::new(program)
            .args(mounted)
            .arg("worker")
            .args(["--address", &address.to_string()])
            .args(["--count", &count.to_string(), "--first", &first.to_string()])
            .args(["--speech", &word(&|| args.speech.to_possible_value())])
            .args(["--transport", &word(&|| args.transport.to_possible_value())])
            .args(["--topics", &topics.to_string(), "--path", &path(args)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a second process of this program")?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (orders, answers) = pipes.context("the child has no pipes")?;
        Ok(Worker { process, orders, answers: BufReader::new(answers) })
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("a client process does not answer")?;
        Ok(line)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Below the 20,000 files a process may open on many systems.
const PER_WORKER: usize = 15_000;
