//! What a session of a virtual host is told, as it calls it.
//!
//! Relies on [`Root`] for names. Invariant: a list shows nothing of other hosts.

use std::borrow::Cow;
use std::sync::Arc;

use tiderace_base::Close;
use tiderace_topics::Path;

use super::Root;
use crate::{ListingEntry, OperationResult, QueueEntry, Reply};

impl Root {
    /// Takes the root off the names in an answer; whether a session of the host is told it at all.
    #[must_use]
    pub fn leave(&self, reply: &mut Reply) -> bool {
        match reply {
            Reply::Joined { path, .. } | Reply::Left { path, .. } => {
                let is_told = self.shows(path);
                self.leave_path(path);
                return is_told;
            }
            Reply::Refused { close, .. }
            | Reply::SubscriptionEnded { close, .. }
            | Reply::ExchangeEnded { close, .. } => {
                self.leave_close(close);
            }
            Reply::Operated { result, .. } => self.leave_result(result),
            Reply::LoggedIn { .. }
            | Reply::Confirmed(_)
            | Reply::Recovered { .. }
            | Reply::Reached { .. }
            | Reply::ReachedUpstream { .. }
            | Reply::Upstream(_)
            | Reply::Browsed { .. }
            | Reply::ExchangeCredit { .. } => {}
        }
        true
    }

    /// Takes the root off the names in the sentence of an error.
    pub fn leave_close(&self, close: &mut Close) {
        if let Cow::Owned(text) = self.text(&close.reason) {
            close.reason = Cow::Owned(text);
        }
    }

    fn leave_path(&self, path: &mut Path) {
        if let Some(own) = self.without(path) {
            *path = own;
        }
    }

    fn leave_queue(&self, queue: &mut QueueEntry) {
        self.leave_path(&mut queue.path);
        queue.topics.iter_mut().for_each(|topics| *topics = self.names(topics).into());
    }

    fn leave_result(&self, result: &mut OperationResult) {
        match result {
            OperationResult::Page(page) => {
                page.topics.retain(|topic| self.shows(&topic.path));
                page.topics.iter_mut().for_each(|topic| self.leave_path(&mut topic.path));
                page.next.iter_mut().for_each(|next| self.leave_path(next));
            }
            OperationResult::Topic(topic) => {
                self.leave_path(&mut topic.path);
                topic.entry.iter_mut().for_each(|entry| self.leave_path(&mut entry.path));
            }
            OperationResult::Listing(page) => {
                page.entries.retain_mut(|entry| self.leave_entry(entry));
            }
            OperationResult::Queue(queue) => {
                self.leave_queue(&mut queue.entry);
                queue.settings.dead_letter.iter_mut().for_each(|path| self.leave_path(path));
            }
            OperationResult::Moved(moved) => {
                moved.refused.iter_mut().for_each(|close| self.leave_close(close));
            }
            OperationResult::Done
            | OperationResult::Drain(_)
            | OperationResult::Stats(_)
            | OperationResult::Node(_)
            | OperationResult::Created { .. }
            | OperationResult::Removed { .. }
            | OperationResult::Updated { .. }
            | OperationResult::Events(_)
            | OperationResult::Locked { .. }
            | OperationResult::Views(_)
            | OperationResult::Session(..)
            | OperationResult::Sessions(_)
            | OperationResult::Kicked { .. }
            | OperationResult::Blocks(_)
            | OperationResult::Traces(_)
            | OperationResult::Messages(_)
            | OperationResult::Purged { .. } => {}
        }
    }

    /// Whether an entry is of the host; with the names that it has there.
    fn leave_entry(&self, entry: &mut ListingEntry) -> bool {
        match entry {
            ListingEntry::Session(_) => false,
            ListingEntry::Queue(queue) => {
                let is_own = self.holds(&queue.path);
                self.leave_queue(queue);
                is_own
            }
            ListingEntry::Service(service) => {
                let own = service.names.iter().filter_map(|name| self.name(name));
                service.names = own.map(Arc::from).collect();
                !service.names.is_empty()
            }
        }
    }
}
