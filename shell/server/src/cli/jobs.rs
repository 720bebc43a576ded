//! Commands that answer calls, each in a process of its own with threads that wait for it.
//!
//! Relies on nothing. Invariants: what a command prints is bounded, and so is its time; the outcome of a job that
//! was ended is dropped.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What a command has printed, or why there is no answer.
pub(super) type Outcome = Result<Vec<u8>, String>;

/// The jobs that run.
#[derive(Debug)]
pub(super) struct Jobs {
    command: Vec<String>,
    timeout: Duration,
    /// By the number of their call.
    running: HashMap<u32, Job>,
    started: u64,
    sender: Sender<Done>,
    done: Receiver<Done>,
}

#[derive(Debug)]
struct Job {
    /// Which run of the command it is: numbers of calls are used again.
    run: u64,
    /// The process, as long as nobody waits for its end.
    child: Arc<Mutex<Child>>,
    until: Instant,
}

/// Number and run of a job that has ended.
type Done = (u32, u64, Outcome);

impl Jobs {
    /// Nothing runs yet. A command is ended after so long.
    pub(super) fn new(command: Vec<String>, timeout: Duration) -> Jobs {
        let (sender, done) = channel();
        Jobs { command, timeout, running: HashMap::new(), started: 0, sender, done }
    }

    /// Whether nothing runs.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Starts the command for a call.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(
        &mut self,
        number: u32,
        service: &str,
        input: Vec<u8>,
    ) -> Result<(), String> {
        let (program, arguments) = self.command.split_first().ok_or("there is no command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .env("TIDERACE_SERVICE", service)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the command of the service cannot be started: {error}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let child = Arc::new(Mutex::new(child));
        self.started += 1;
        let (run, until) = (self.started, Instant::now() + self.timeout);
        self.running.insert(number, Job { run, child: child.clone(), until });
        let sender = self.sender.clone();
        thread::spawn(move || {
            thread::spawn(move || {
                // A command need not read what was asked.
                stdin.map(|mut stdin| stdin.write_all(&input))
            });
            // Nobody receives it any more if this program ends.
            let _ = sender.send((number, run, outcome(&child, stdout)));
        });
        Ok(())
    }

    /// The outcome of a job that has ended, or took too long.
    pub(super) fn finished(&mut self) -> Option<(u32, Outcome)> {
        while let Ok((number, run, outcome)) = self.done.try_recv() {
            if self.running.get(&number).is_some_and(|job| job.run == run) {
                self.running.remove(&number);
                return Some((number, outcome));
            }
        }
        let now = Instant::now();
        let late = self.running.iter().find(|(_, job)| job.until <= now);
        let number = late.map(|(number, _)| *number)?;
        self.end(number);
        let timeout = tiderace_config::format_duration(self.timeout);
        Some((number, Err(format!("the command of the service took longer than {timeout}"))))
    }

    /// Ends a job whose answer nobody wants.
    pub(super) fn end(&mut self, number: u32) {
        let Some(job) = self.running.remove(&number) else { return };
        // It may have ended by itself.
        let _ = job.child.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }

    /// Ends all jobs.
    pub(super) fn end_all(&mut self) {
        let numbers: Vec<u32> = self.running.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.end(number));
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// Reads what a command prints and waits for its end.
fn outcome(child: &Mutex<Child>, stdout: Option<ChildStdout>) -> Outcome {
    let mut printed = Vec::new();
    if let Some(stdout) = stdout {
        let read = stdout.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut printed);
        read.map_err(|error| {
            format!("what the command of the service prints cannot be read: {error}")
        })?;
    }
    let lock = || child.lock().unwrap_or_else(PoisonError::into_inner);
    if printed.len() as u64 > ANSWER_BYTES_MAX {
        // It may have ended by itself.
        let _ = lock().kill();
        return Err(format!(
            "the command of the service printed more than {ANSWER_BYTES_MAX} bytes"
        ));
    }
    loop {
        // Nobody may hold the lock while a command goes on that has closed its output: it could not be ended.
        let status = lock().try_wait();
        match status {
            Ok(Some(status)) if status.success() => return Ok(without_newline(printed)),
            Ok(Some(status)) => {
                return Err(format!("the command of the service ended with {status}"));
            }
            Ok(None) => thread::sleep(LOOK_INTERVAL),
            Err(error) => return Err(format!("the command of the service is lost: {error}")),
        }
    }
}

/// Commands print lines; an answer is what stands in them.
fn without_newline(mut printed: Vec<u8>) -> Vec<u8> {
    printed.pop_if(|last| *last == b'\n');
    printed
}

/// Bytes of an answer: what servers take unless they are told otherwise.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// How often it is looked whether a command has ended that has closed its output.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn jobs(script: &str, timeout: Duration) -> Jobs {
        let command = ["sh", "-c", script].map(str::to_owned).into();
        Jobs::new(command, timeout)
    }

    fn next(jobs: &mut Jobs) -> (u32, Outcome) {
        loop {
            if let Some(done) = jobs.finished() {
                return done;
            }
            thread::yield_now();
        }
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn commands_read_what_was_asked_and_print_the_answer() {
        let mut jobs = jobs("read line; echo \"$TIDERACE_SERVICE: $line\"", LONG);
        jobs.start(7, "a/b", b"one\ntwo".to_vec()).unwrap();
        assert_eq!(next(&mut jobs), (7, Ok(b"a/b: one".to_vec())));
        assert!(jobs.is_empty());
    }

    #[test]
    fn failures_are_told() {
        let mut failing = jobs("exit 3", LONG);
        failing.start(1, "a", Vec::new()).unwrap();
        let (_, outcome) = next(&mut failing);
        assert_eq!(outcome.unwrap_err(), "the command of the service ended with exit status: 3");
        let mut chatty = jobs("yes", LONG);
        chatty.start(1, "a", Vec::new()).unwrap();
        assert!(next(&mut chatty).1.unwrap_err().contains("printed more than"));
        let mut slow = jobs("exec sleep 1000", Duration::ZERO);
        slow.start(1, "a", Vec::new()).unwrap();
        assert!(next(&mut slow).1.unwrap_err().contains("took longer than"));
        let missing = vec!["/no/such/command".to_owned()];
        let error = Jobs::new(missing, LONG).start(1, "a", Vec::new()).unwrap_err();
        assert!(error.contains("cannot be started"), "{error}");
    }

    #[test]
    fn the_outcome_of_a_job_that_was_ended_is_not_that_of_the_next_of_its_number() {
        let mut jobs = jobs("read line; echo $line", LONG);
        jobs.start(1, "a", b"old\n".to_vec()).unwrap();
        jobs.end(1);
        assert!(jobs.is_empty());
        jobs.start(1, "a", b"new\n".to_vec()).unwrap();
        assert_eq!(next(&mut jobs), (1, Ok(b"new".to_vec())));
    }
}
