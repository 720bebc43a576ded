//! Many clients that come back when their connections are lost, on one thread: who is where, for how long it was away.
//!
//! Invariant: a client is connected, or has a time at which it connects next.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Registry, Token};

use super::checker::Counters;
use super::member::{Member, Read};
use crate::random::Random;

/// Clients of several servers.
#[derive(Debug)]
pub(super) struct Fleet {
    addresses: Vec<SocketAddr>,
    /// The longest pause before a client connects again.
    jitter: Duration,
    members: Vec<Member>,
    poll: Poll,
    random: Random,
    pub(super) counters: Counters,
    /// Times that clients took to come back, without their pauses.
    pub(super) returns: Vec<Duration>,
    /// Those of the returns with something missing.
    pub(super) returns_with_gap: u64,
    /// Why connections were lost, and how often.
    pub(super) losses: BTreeMap<String, u64>,
}

impl Fleet {
    /// Nobody yet.
    ///
    /// # Errors
    /// When the system has no poller.
    pub(super) fn new(addresses: Vec<SocketAddr>, jitter: Duration) -> io::Result<Fleet> {
        Ok(Fleet {
            addresses,
            jitter,
            members: Vec::new(),
            poll: Poll::new()?,
            random: Random(7),
            counters: Counters::default(),
            returns: Vec::new(),
            returns_with_gap: 0,
            losses: BTreeMap::new(),
        })
    }

    /// A client that connects now.
    pub(super) fn add(&mut self, member: Member) {
        self.members.push(member);
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many have all their subscriptions.
    pub(super) fn ready(&self) -> usize {
        self.members.iter().filter(|member| member.is_ready()).count()
    }

    /// Runs for so long.
    ///
    /// # Errors
    /// Only when the poller fails; what happens to clients is counted.
    pub(super) fn run_for(&mut self, time: Duration) -> io::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.turn()?;
        }
        Ok(())
    }

    /// Runs until something holds, or for so long; whether it holds.
    ///
    /// # Errors
    /// As those of [`Fleet::run_for`].
    pub(super) fn run_until(
        &mut self,
        time: Duration,
        mut holds: impl FnMut(&Fleet) -> bool,
    ) -> io::Result<bool> {
        let end = Instant::now() + time;
        while !holds(self) {
            let now = Instant::now();
            if now >= end {
                return Ok(false);
            }
            // Looking at all clients may take as long as a turn.
            self.run_for(LOOK_EVERY.min(end - now))?;
        }
        Ok(true)
    }

    /// Cuts the connections of one in so many clients, of those that are not at that server; each comes back to where it was.
    pub(super) fn cut_others(&mut self, server: usize, one_in: usize) {
        let now = Instant::now();
        let registry = self.poll.registry();
        let others = self.members.iter_mut().filter(|it| it.at != server && it.is_ready());
        for member in others.step_by(one_in) {
            *self.losses.entry("cut here".to_owned()).or_default() += 1;
            member.lose(now, registry, Duration::ZERO);
        }
    }

    /// Changes one subscription of a client.
    pub(super) fn change(&mut self, client: usize, from: &str, to: &str) {
        let now = Instant::now();
        if let Some(member) = self.members.get_mut(client).filter(|member| member.is_ready()) {
            member.change(from, to, now, self.poll.registry());
        }
    }

    /// All leave.
    pub(super) fn leave(&mut self) {
        self.members.clear();
    }

    /// One look at all sockets.
    fn turn(&mut self) -> io::Result<()> {
        let now = Instant::now();
        for number in 0..self.members.len() {
            let Some(member) = self.members.get_mut(number) else { continue };
            let address = self.addresses.get(member.at).copied();
            if let Some(address) = address.filter(|_| member.is_due(now))
                && let Err(error) = member.connect(address, Token(number), self.poll.registry())
            {
                self.lost(number, &error);
            }
        }
        let mut events = Events::with_capacity(1024);
        match self.poll.poll(&mut events, Some(TURN)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            let number = event.token().0;
            let Some(member) = self.members.get_mut(number) else { continue };
            match member.read(&mut self.counters) {
                Ok(Read::Nothing) => {}
                Ok(Read::Returned { took, has_gap }) => {
                    self.returns.push(took);
                    self.returns_with_gap += u64::from(has_gap);
                }
                Err(error) => self.lost(number, &error),
            }
        }
        Ok(())
    }

    /// A client has lost its connection, and goes elsewhere.
    fn lost(&mut self, number: usize, error: &io::Error) {
        let servers = self.addresses.len() as u64;
        let pause = self.random.below(self.jitter.as_millis() as u64 + 1);
        let further = 1 + self.random.below(servers.saturating_sub(1).max(1));
        let registry: &Registry = self.poll.registry();
        let Some(member) = self.members.get_mut(number) else { return };
        let what = format!("{}: {error}", member.kind);
        *self.losses.entry(what.chars().take(LOSS_CHARACTERS).collect()).or_default() += 1;
        if servers > 1 {
            member.at = (member.at + further as usize) % servers as usize;
        }
        member.lose(Instant::now(), registry, Duration::from_millis(pause));
    }

    /// The gaps of those that have come back and were not counted yet.
    pub(super) fn count_gaps(&mut self) {
        let gaps = self.members.iter_mut().filter_map(Member::take_gap).count();
        self.returns_with_gap += gaps as u64;
    }
}

/// What a socket is asked to tell.
pub(super) const INTEREST: Interest = Interest::READABLE.add(Interest::WRITABLE);
/// Between two looks at whether something holds.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const TURN: Duration = Duration::from_millis(5);
const LOSS_CHARACTERS: usize = 160;
