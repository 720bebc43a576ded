//! As a home: the values that a subscription by pattern gets first, a page at a time.
//!
//! A subscription counts from the moment at which the home hears of it. What is published from then
//! on is sent at once; what the topics hold from before comes in pages, in the order of their paths,
//! as the subscriber's shard asks for them. A topic that was published to meanwhile is left out, for
//! it has been sent. Invariants: of each topic the value comes first and what is newer after it, none
//! missing and none twice; no call looks at more than a page's worth of topics.

use std::sync::Arc;

use tiderace_base::Now;
use tiderace_queues::reaches;
use tiderace_topics::{Path, Pattern, PatternIndex};
use tiderace_wire::{Run, TopicSpec};

use crate::BrokerOptions;
use crate::collections::Map;
use crate::directory::Directory;
use crate::home::home_topics::{HomeTopics, TopicAtHome};
use crate::home::topic::HomeTopic;
use crate::messages::{First, SnapshotPage, Specs, SubscribeRequestId};
use crate::places::Place;
use crate::runs::fresh;
use crate::runs::last_of;

/// The snapshots that a home has not given completely.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    open: Map<SubscribeRequestId, Snapshot>,
    /// The same by their patterns.
    index: PatternIndex<SubscribeRequestId>,
    /// The last number before the newest of them.
    newest_at: u64,
}

/// What is left of a snapshot.
#[derive(Debug)]
struct Snapshot {
    pattern: Pattern,
    below: Box<str>,
    /// The last number before the subscription.
    at: u64,
    first: First,
    /// The last path that was looked at.
    after: Option<Path>,
}

/// Some values of a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) runs: Vec<Arc<Run>>,
    pub(crate) specs: Specs,
    /// Whether there may be more.
    pub(crate) more: bool,
    /// Topics that were looked at for it.
    pub(crate) looked_at: usize,
    /// The number above which messages are meant.
    pub(crate) after: u64,
}

/// What a new snapshot is of.
#[derive(Debug)]
pub(crate) struct NewSnapshot<'a> {
    pub(crate) request: SubscribeRequestId,
    pub(crate) pattern: &'a Pattern,
    /// The last number before the subscription.
    pub(crate) at: u64,
    pub(crate) first: First,
    /// Bytes that the first page may have; absent: it comes later.
    pub(crate) bytes: Option<usize>,
}

/// The topics of a home, from which pages are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Topics<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) options: &'a BrokerOptions,
}

impl Snapshots {
    /// A snapshot begins: its first page.
    pub(crate) fn begin(
        &mut self,
        now: Now,
        new: NewSnapshot<'_>,
        from: Topics<'_>,
        kept: &HomeTopics,
    ) -> Page {
        let NewSnapshot { request, pattern, at, first, bytes } = new;
        let below = pattern.literal_prefix().into();
        let mut snapshot = Snapshot { pattern: pattern.clone(), below, at, first, after: None };
        let page = match bytes {
            None => Page { more: true, ..Page::default() },
            Some(bytes) => snapshot.next_page(now, bytes, false, from, kept),
        };
        if page.more {
            self.keep(request, snapshot);
        }
        page
    }

    /// The next page of a snapshot, with one value at least; empty if it is complete.
    pub(crate) fn next_page(
        &mut self,
        now: Now,
        request: SubscribeRequestId,
        bytes: usize,
        from: Topics<'_>,
        kept: &HomeTopics,
    ) -> Page {
        let Some(mut snapshot) = self.take(&request) else { return Page::default() };
        let page = snapshot.next_page(now, bytes, true, from, kept);
        if page.more {
            self.keep(request, snapshot);
        }
        page
    }

    /// The subscription has ended, or needs no more.
    pub(crate) fn end(&mut self, request: &SubscribeRequestId) {
        self.take(request);
    }

    /// Something newer of a topic is about to be sent: a subscriber that lacks what it does not make up for gets
    /// that before. `last` was the topic's last number until now; `stays` says whether its value is
    /// still the same.
    pub(crate) fn before_change(
        &self,
        now: Now,
        topic: TopicAtHome<'_>,
        (last, stays): (u64, bool),
        options: &BrokerOptions,
    ) -> Vec<(SubscribeRequestId, SnapshotPage)> {
        let mut concerned = Vec::new();
        self.index.matches(topic.path(), &mut |request| {
            concerned.extend(self.open.get_key_value(request));
        });
        let lacking = concerned
            .into_iter()
            .filter(|(_, snapshot)| last <= snapshot.at && !snapshot.has_passed(topic.path()))
            .filter(|(_, snapshot)| !snapshot.can_do_without(topic, stays))
            .map(|(request, snapshot)| {
                let (runs, after) = (snapshot.values(topic, now), snapshot.floor());
                let spec = own_spec(topic, options);
                let places = (0..runs.len() as u32).zip(std::iter::repeat(spec));
                let specs = places.filter_map(|(place, spec)| Some((place, spec?.clone())));
                let specs = specs.collect();
                let page =
                    SnapshotPage { runs, specs, after, early: true, ..SnapshotPage::default() };
                (*request, page)
            });
        lacking.filter(|(_, page)| !page.runs.is_empty()).collect()
    }

    /// The values of topics that a subscription may see from now on, if it has not been sent something newer: it has been
    /// sent all that has a number above `until`. What its snapshot has yet to give is left to that. Absent if they are too much.
    pub(crate) fn shown_values(
        &self,
        now: Now,
        request: &SubscribeRequestId,
        (paths, until): (&[Path], u64),
        from: Topics<'_>,
        kept: &HomeTopics,
    ) -> Option<SnapshotPage> {
        let (mut page, mut bytes) = (SnapshotPage::default(), 0);
        let open = self.open.get(request);
        for path in paths {
            // What stands in for what somebody has missed is not asked for if that is given.
            let is_sure = |open: &&Snapshot| !matches!(open.first, First::Since { .. });
            let open = open.filter(is_sure).filter(|open| !open.has_passed(path));
            let topic = from.directory.find(path).and_then(|key| from.directory.get(key));
            let Some(topic) = topic.map(|topic| kept.at(topic)) else { continue };
            let comes = |last: u64| open.is_some_and(|open| last <= open.at);
            let home = topic.home().filter(|home| home.last() <= until && !comes(home.last()));
            // What was hidden for a while is shown without LEFT ahead of it: its client may have the value from before.
            let value = home.and_then(|home| fresh(home.value().or(home.end_since(0)), now));
            let Some(value) = value else { continue };
            bytes += value.bytes();
            if bytes > from.options.backlog_bytes_high && !page.runs.is_empty() {
                return None;
            }
            let place = page.runs.len() as u32;
            page.specs.extend(own_spec(topic, from.options).map(|spec| (place, spec.clone())));
            page.runs.push(value);
        }
        Some(page)
    }

    fn keep(&mut self, request: SubscribeRequestId, snapshot: Snapshot) {
        self.newest_at = self.newest_at.max(snapshot.at);
        self.index.insert(&snapshot.pattern, request);
        if let Some(before) = self.open.insert(request, snapshot) {
            self.index.remove(&before.pattern, &request);
        }
        debug_assert_eq!(self.index.len(), self.open.len());
    }

    fn take(&mut self, request: &SubscribeRequestId) -> Option<Snapshot> {
        let taken = self.open.remove(request);
        if let Some(taken) = &taken {
            self.index.remove(&taken.pattern, request);
        }
        debug_assert_eq!(self.index.len(), self.open.len());
        if self.open.is_empty() {
            *self = Snapshots::default();
        }
        taken
    }

    /// A place is lost, and the snapshots of its subscriptions.
    pub(crate) fn lose(&mut self, place: Place) {
        let lost = self.open.keys().filter(|request| Place::of(request.session) == place);
        for request in lost.copied().collect::<Vec<_>>() {
            self.take(&request);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether one may not have given yet what a topic held when its last number was this.
    pub(crate) fn may_lack(&self, last: u64) -> bool {
        last <= self.newest_at && !self.open.is_empty()
    }
}

impl Snapshot {
    /// What a topic contributes, as long as nothing newer was sent.
    fn values(&self, topic: TopicAtHome<'_>, now: Now) -> Vec<Arc<Run>> {
        let home = topic.home().filter(|_| reaches(&self.pattern, topic.path()));
        match (self.first, home) {
            (_, None) => Vec::new(),
            (First::Replay(from), Some(home)) if home.series().is_some() => {
                home.series().map_or_else(Vec::new, |series| series.replay(from))
            }
            (first, Some(home)) => {
                let value = value_of(home, first, now);
                let end = value_end_of(home, first)
                    .filter(|end| value.as_ref().is_none_or(|value| value.first() > end.first()));
                end.cloned().into_iter().chain(value).collect()
            }
        }
    }

    /// Whether something newer of the topic makes up for what it contributes; `stays` says whether
    /// that leaves its value.
    fn can_do_without(&self, topic: TopicAtHome<'_>, stays: bool) -> bool {
        let replays = matches!(self.first, First::Replay(_));
        let keeps = topic.home().is_some_and(|home| home.series().is_some());
        !(stays || replays && keeps)
    }

    /// The next values. `some`: even if the next one is larger than so many bytes.
    fn next_page(
        &mut self,
        now: Now,
        bytes: usize,
        some: bool,
        from: Topics<'_>,
        kept: &HomeTopics,
    ) -> Page {
        let limits = from.options.page;
        let (mut runs, mut specs, mut used, mut more) = (Vec::new(), Vec::new(), 0, false);
        let mut seen = 0;
        let mut last: Option<TopicAtHome<'_>> = None;
        let after = self.after.as_ref().map(Path::as_str);
        let walk = from.directory.walk(&self.below, after);
        for (looked_at, (_, topic)) in walk.enumerate() {
            more = looked_at == limits.looked_at || runs.len() >= limits.values;
            if more {
                break;
            }
            seen = looked_at + 1;
            let topic = kept.at(topic);
            let silent = topic.home().is_some_and(|home| home.last() <= self.at);
            if silent {
                let mut values = self.values(topic, now);
                used += values.iter().map(|run| run.bytes()).sum::<usize>();
                more = used > bytes && !(some && runs.is_empty());
                if more {
                    break;
                }
                if let Some(spec) = own_spec(topic, from.options) {
                    let places = (runs.len() as u32..).take(values.len());
                    specs.extend(places.map(|place| (place, spec.clone())));
                }
                runs.append(&mut values);
            }
            last = Some(topic);
        }
        if let Some(topic) = last {
            self.after = Some(topic.path().clone());
        }
        Page { runs, specs, more, looked_at: seen, after: self.floor() }
    }

    fn has_passed(&self, path: &Path) -> bool {
        self.after.as_ref().is_some_and(|after| path <= after)
    }

    /// The number above which messages are meant.
    fn floor(&self) -> u64 {
        match self.first {
            First::Since { after, .. } => after.unwrap_or(0),
            First::Nothing | First::Retained | First::Replay(_) => 0,
        }
    }
}

/// What a topic has to say before everything new: to somebody who comes back, only what is newer
/// than what was known.
fn value_of(home: &HomeTopic, first: First, now: Now) -> Option<Arc<Run>> {
    let (after, wanted) = match first {
        First::Nothing => return None,
        First::Retained | First::Replay(_) => return fresh(home.value(), now),
        First::Since { after, retained, .. } => (after.unwrap_or(0), retained),
    };
    let retained = home.value().filter(|run| wanted && run.first() > after);
    let newest = || home.history()?.newest().filter(|run| last_of(run) > after).cloned();
    fresh(retained, now).or_else(newest)
}

/// What took a topic's value away since somebody was here who comes back, and may have that value.
fn value_end_of(home: &HomeTopic, first: First) -> Option<&Arc<Run>> {
    match first {
        First::Since { after: Some(after), retained: true, .. } => home.end_since(after),
        _ => None,
    }
}

/// What a topic is, if that is not what the configuration says of its path.
fn own_spec<'a>(topic: TopicAtHome<'a>, options: &BrokerOptions) -> Option<&'a Arc<TopicSpec>> {
    let usual = Arc::ptr_eq(topic.spec(), &options.topic_default)
        || Arc::ptr_eq(topic.spec(), options.topic(topic.path()));
    (!usual).then_some(topic.spec())
}
