//! The subscriptions at the upstream, and the requests that are not answered.
//!
//! Relies on the broker for small numbers. Invariant: a number is used again only once the upstream has answered its
//! UNSUBSCRIBE, so that what comes under it is what was asked for.

use std::collections::{BTreeMap, BTreeSet};

use tiderace_base::Numbered;
use tiderace_wire::{Position, Target};

/// What is to be subscribed to.
pub(super) struct Wish {
    pub(super) target: Target,
    pub(super) since: Option<Position>,
}

/// A subscription that the upstream has been asked for.
pub(super) struct Subscribed {
    /// Whether its topics are announced.
    pub(super) is_pattern: bool,
    /// Whether updates may be deltas.
    pub(super) has_deltas: bool,
    /// The id of its request.
    request: u32,
    /// Once UNSUBSCRIBE has been said.
    end: Option<End>,
}

/// What to do when a number is free.
#[derive(Default)]
struct End {
    next: Option<Box<Wish>>,
}

/// A request that wants an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Subscribe(u32),
    Unsubscribe(u32),
    /// A subscription whose end was answered first: its number may stand for another.
    Over,
    /// To serve, or to serve no more, by the id of the subscription.
    Serve(u32),
    ServeNoMore(u32),
    /// One of a client of this node, or a part of it, by the broker's number.
    Relayed(u32),
}

/// All subscriptions.
#[derive(Default)]
pub(super) struct Subscriptions {
    all: Numbered<Subscribed>,
    /// Those that are to queues.
    consumers: BTreeSet<u32>,
    /// By request id. Each subscription has two at most.
    waiting: BTreeMap<u32, Request>,
    last_request: u32,
}

impl Subscriptions {
    /// Whether a number is in use.
    pub(super) fn is_known(&self, key: u32) -> bool {
        self.all.get(key).is_some()
    }

    /// A subscription that is wanted: what comes for others is of no use any more.
    pub(super) fn wanted(&self, key: u32) -> Option<&Subscribed> {
        self.all.get(key).filter(|subscribed| subscribed.end.is_none())
    }

    /// Begins one under a number that is free; the id of the request.
    pub(super) fn begin(&mut self, key: u32, is_pattern: bool, has_deltas: bool) -> u32 {
        let request = self.request(Request::Subscribe(key));
        self.all.insert(key, Subscribed { is_pattern, has_deltas, request, end: None });
        request
    }

    /// The same of a consumer.
    pub(super) fn begin_consumer(&mut self, key: u32, is_pattern: bool) -> u32 {
        self.consumers.insert(key);
        self.begin(key, is_pattern, false)
    }

    /// Whether a number stands for a consumer.
    pub(super) fn is_consumer(&self, key: u32) -> bool {
        self.consumers.contains(&key)
    }

    /// Keeps a wish until its number is free; gives it back if it is, or is taken.
    pub(super) fn keep(&mut self, key: u32, wish: Wish) -> Option<Wish> {
        match self.all.get_mut(key).and_then(|subscribed| subscribed.end.as_mut()) {
            Some(end) => {
                end.next = Some(Box::new(wish));
                None
            }
            None => Some(wish),
        }
    }

    /// Ends one, or the wish for its number; the id of the request if there has to be one.
    pub(super) fn end(&mut self, key: u32) -> Option<u32> {
        let end = &mut self.all.get_mut(key)?.end;
        let is_new = end.replace(End::default()).is_none();
        is_new.then(|| self.request(Request::Unsubscribe(key)))
    }

    /// Frees a number; what is to be begun under it.
    pub(super) fn free(&mut self, key: u32) -> Option<Wish> {
        let subscribed = self.all.remove(key)?;
        self.consumers.remove(&key);
        let request = self.waiting.get_mut(&subscribed.request);
        if let Some(request) = request.filter(|request| **request == Request::Subscribe(key)) {
            *request = Request::Over;
        }
        subscribed.end?.next.map(|wish| *wish)
    }

    /// The request of that id, which waits no more.
    pub(super) fn answered(&mut self, request: u32) -> Option<Request> {
        self.waiting.remove(&request)
    }

    /// The request of that id, which goes on waiting.
    pub(super) fn waiting(&self, request: u32) -> Option<Request> {
        self.waiting.get(&request).copied()
    }

    /// The first request of a stretch that waits.
    pub(super) fn first_of(&self, first: u32, last: u32) -> Option<u32> {
        self.waiting.range(first..=last.max(first)).next().map(|(request, _)| *request)
    }

    /// A request is to be answered; its id.
    pub(super) fn request(&mut self, request: Request) -> u32 {
        self.last_request = self.last_request.wrapping_add(1).max(1);
        self.waiting.insert(self.last_request, request);
        self.last_request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish() -> Wish {
        let path = tiderace_topics::Path::parse("a");
        let kind = tiderace_wire::Kind::Topic;
        let target = path.map(|path| Target::Exact(tiderace_wire::Destination { kind, path }));
        #[allow(clippy::unwrap_used)]
        Wish { target: target.unwrap(), since: None }
    }

    #[test]
    fn a_number_is_free_once_its_end_is_answered() {
        let mut all = Subscriptions::default();
        assert!(all.keep(7, wish()).is_some(), "nothing to wait for");
        assert_eq!(all.begin(7, false, true), 1);
        assert!(all.keep(7, wish()).is_some(), "it is taken");
        assert_eq!((all.end(7), all.end(7), all.end(8)), (Some(2), None, None));
        assert!(all.keep(7, wish()).is_none() && all.wanted(7).is_none() && all.is_known(7));
        assert_eq!(all.first_of(1, 9), Some(1));
        assert_eq!(all.answered(1), Some(Request::Subscribe(7)));
        assert_eq!(all.answered(2), Some(Request::Unsubscribe(7)));
        assert_eq!(all.first_of(1, 9), None);
        assert!(all.free(7).is_some() && !all.is_known(7) && all.free(7).is_none());
        // A wish that was taken back.
        assert_eq!((all.begin(7, true, true), all.end(7)), (3, Some(4)));
        assert!(all.keep(7, wish()).is_none());
        assert_eq!(all.end(7), None);
        assert!(all.free(7).is_none());
    }

    #[test]
    fn what_is_answered_behind_its_end_is_over() {
        let mut all = Subscriptions::default();
        assert_eq!((all.begin(7, true, true), all.end(7)), (1, Some(2)));
        assert_eq!(all.answered(2), Some(Request::Unsubscribe(7)));
        assert!(all.free(7).is_none());
        assert_eq!(all.begin(7, true, true), 3);
        assert_eq!((all.waiting(1), all.answered(1)), (Some(Request::Over), Some(Request::Over)));
        assert_eq!(all.answered(3), Some(Request::Subscribe(7)));
    }

    #[test]
    fn requests_go_round() {
        let mut all = Subscriptions { last_request: u32::MAX - 1, ..Subscriptions::default() };
        assert_eq!((all.begin(1, false, false), all.begin(2, false, false)), (u32::MAX, 1));
        assert_eq!(all.answered(u32::MAX), Some(Request::Subscribe(1)));
        assert_eq!((all.answered(1), all.waiting(1)), (Some(Request::Subscribe(2)), None));
    }
}
