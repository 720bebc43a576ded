//! Names of hosts, asked for on a thread of their own: the operating system answers when it likes.
//!
//! The thread begins with the first question and ends with the driver. Invariants: a shard never waits; no more than
//! [`QUESTIONS_MAX`] questions wait; nobody is told what came too late to be of use.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use super::NameAnswer;

/// The way to the thread, if it has begun.
#[derive(Debug, Default)]
pub(super) struct Names(Option<SyncSender<Question>>);

struct Question {
    host: String,
    port: u16,
    asked: Instant,
    answer: NameAnswer,
}

impl Names {
    /// Asks for the addresses of a name.
    pub(super) fn ask(&mut self, host: &str, port: u16, answer: NameAnswer) {
        let question = Question { host: host.to_owned(), port, asked: Instant::now(), answer };
        let thread = match &self.0 {
            Some(thread) => thread,
            None => match begin() {
                Ok(thread) => self.0.insert(thread),
                Err(error) => return (question.answer)(Err(error)),
            },
        };
        match thread.try_send(question) {
            Ok(()) => {}
            Err(TrySendError::Full(question) | TrySendError::Disconnected(question)) => {
                let error = io::Error::other("too many names wait to be resolved");
                (question.answer)(Err(error));
            }
        }
    }
}

fn begin() -> io::Result<SyncSender<Question>> {
    let (thread, questions) = sync_channel::<Question>(QUESTIONS_MAX);
    std::thread::Builder::new().name("names".to_owned()).spawn(move || {
        for question in questions {
            if question.asked.elapsed() > LATE {
                continue;
            }
            let found = (question.host.as_str(), question.port).to_socket_addrs();
            (question.answer)(found.map(|addresses| addresses.collect::<Vec<SocketAddr>>()));
        }
    })?;
    Ok(thread)
}

/// Questions that wait while one is being answered.
const QUESTIONS_MAX: usize = 64;
/// A question that has waited so long is not waited for any more.
const LATE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_resolved_on_another_thread() {
        let mut names = Names::default();
        let (send, receive) = std::sync::mpsc::channel();
        for host in ["localhost", "no such name"] {
            let send = send.clone();
            let tell = move |found| send.send((std::thread::current().id(), found)).unwrap();
            names.ask(host, 7800, Box::new(tell));
        }
        let (thread, found) = receive.recv().unwrap();
        assert_ne!(thread, std::thread::current().id());
        assert!(found.unwrap().iter().all(|it| it.ip().is_loopback() && it.port() == 7800));
        let (_, found) = receive.recv().unwrap();
        assert!(found.is_err(), "{found:?}");
    }
}
