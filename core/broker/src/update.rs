//! At a topic's home: creating it, and giving it values that depend on what it is now.
//!
//! Relies on the home being the only place where a topic changes, so that a condition which holds
//! when it is looked at holds when the value is written. Invariant: an update that is refused has
//! changed nothing.

use std::borrow::Cow;
use std::sync::Arc;

use tiderace_base::limits::{CHANGED_VALUE_BYTES_MAX, DELTA_VALUE_BYTES_MAX};
use tiderace_base::{Close, CloseCode, Key, MemoryUse, Now};
use tiderace_topics::Path;
use tiderace_value::{Budget, Json, Limits, Patch};
use tiderace_wire::{
    Change, Destination, Flags, Kind, Meta, NewValue, OperationResult, Run, TopicSpec, Update,
    within_host,
};

use crate::Action;
use crate::condition::{JSON_DEPTH_MAX, check_values, may_look_into};
use crate::effects::Effects;
use crate::home::topic::HomeTopic;
use crate::home_side::HomeSide;
use crate::price;
use crate::publish::may_change;
use crate::publisher::Published;
use crate::publisher::Publisher;
use crate::publisher::Room;
use crate::publisher::Values;
use crate::requester::Done;
use crate::requester::Requester;
use crate::room::check_room;
use crate::runs::keeps;
use crate::work::PRICE_MAX;

impl HomeSide<'_> {
    pub(crate) fn create_topic(
        &mut self,
        now: Now,
        requester: &Requester,
        path: &Path,
        spec: &[u8],
        value: Option<NewValue>,
        effects: &mut Effects,
    ) -> Result<Done, Close> {
        let spec = self.spec_from(requester, path, spec)?;
        let known = self.topic_named(path);
        let existing = known.filter(|topic| topic.is_known());
        if let Some(topic) = existing {
            self.may_operate(requester, Action::Create, path)?;
            if *topic.spec() != spec {
                let reason = format!(
                    "the topic {path} is there with another specification; remove it first, or create it with the same"
                );
                return Err(Close::new(CloseCode::TopicExists, reason));
            }
        }
        let existed = existing.is_some();
        if known.is_none() {
            self.directory.check_room(path)?;
        }
        if !existed {
            self.may_operate(requester, Action::Create, path)?;
            if value.is_some() {
                self.may_operate_on(requester, Action::Publish, path, Some(&spec))?;
            }
            self.journal.check_persistence(&spec)?;
        } else {
            self.journal.check(&spec)?;
        }
        // That it is there may be what an earlier record says.
        let mut record = if existed && spec.persistent { self.journal.last_record() } else { 0 };
        let mut fed = None;
        let run = value.map(|value| self.run_of(now, path, &value.properties, &value.body));
        if let Some(run) = &run {
            check_values(&spec, run, self.work)?;
        }
        if let Some(run) = run.as_ref().filter(|_| !existed) {
            self.check_first(requester, path, &spec, run)?;
        }
        let retires = spec.removal.is_some();
        let key = self.make_known(now, path, spec, effects);
        if retires && !existed {
            self.begin_retirement(now, key, requester.session);
        }
        if let Some(run) = run.filter(|_| !existed) {
            let published = self.publish_here(now, requester, key, run, None, effects)?;
            (record, fed) = (published.record, published.fed);
        }
        Ok(Done { result: OperationResult::Created { existed }, record, fed })
    }

    pub(crate) fn update_topic(
        &mut self,
        now: Now,
        requester: &Requester,
        update: &Update,
        effects: &mut Effects,
    ) -> Result<Done, Close> {
        let path = &update.path;
        let there = self.topic_named(path).is_some_and(|topic| topic.is_known());
        let created = match (there, &update.spec) {
            (false, Some(spec)) => Some(self.spec_from(requester, path, spec)?),
            _ => None,
        };
        let known = self.topic_named(path);
        if known.is_none() {
            self.directory.check_room(path)?;
        }
        if let Some(spec) = &created {
            self.may_operate(requester, Action::Create, path)?;
            self.journal.check_persistence(spec)?;
        }
        self.may_operate_on(requester, Action::Publish, path, created.as_deref())?;
        if depends_on_value(update) {
            self.may_depend_on(requester, path, created.as_deref())?;
        }
        let policy = self.options.topic(path);
        let spec = created.as_ref().or(known.map(|topic| topic.spec())).unwrap_or(policy).clone();
        let value = known.and_then(|topic| topic.value(now));
        if let Some(condition) = &update.condition {
            self.check_condition(requester, path, value.as_deref(), condition)?;
        }
        if !matches!(update.change, Change::Value(_)) && self.memory.is_full() {
            // The new value would be made here from a few bytes, so reading less would not hold it back.
            return Err(CloseCode::MemoryFull.into());
        }
        let run = {
            let present = value.as_ref().and_then(|run| run.message(0));
            let body = present.map(|message| message.body);
            let mut steps = Budget::new(CHANGE_STEPS_MAX);
            let bytes_max = self.options.message_bytes_max;
            let made = changed(body, value.as_deref(), update, bytes_max, &mut steps);
            let charged = price::STEP * (CHANGE_STEPS_MAX - steps.left()) as u64;
            let body = made.inspect_err(|_| self.work.charge(charged))?;
            let before = present.map_or(0, |message| message.body.len());
            self.work.charge(charged + price::of_growth(update, before, body.len()));
            let properties = match (&update.properties, present) {
                (Some(properties), _) => properties.as_ref(),
                (None, Some(present)) if !matches!(update.change, Change::Value(_)) => {
                    present.properties
                }
                (None, _) => &[],
            };
            let flags = update.flags | Flags::RETAIN;
            let destination = Destination { kind: Kind::Topic, path: path.clone() };
            let meta = Meta { flags, expires_ms: None };
            match body {
                Cow::Borrowed(body) => Run::single(destination, now.time, properties, body, meta),
                Cow::Owned(body) => {
                    Run::single_owned(destination, now.time, properties, body, meta)
                }
            }
        };
        // A holder of the present value, when it is replaced, counts as a reader that keeps it.
        drop(value);
        // What is known checks it when it is published to.
        if !there {
            check_values(&spec, &run, self.work)?;
        }
        let key = match created {
            Some(spec) => {
                self.check_first(requester, path, &spec, &run)?;
                let retires = spec.removal.is_some();
                let key = self.make_known(now, path, spec, effects);
                if retires {
                    self.begin_retirement(now, key, requester.session);
                }
                key
            }
            None => self.directory.admit(now, path)?,
        };
        let Published { version, record, fed } =
            self.publish_here(now, requester, key, run, None, effects)?;
        self.note_fence(path, update.condition.as_ref(), requester.fence);
        Ok(Done { result: OperationResult::Updated { version }, record, fed })
    }

    fn spec_from(
        &mut self,
        requester: &Requester,
        path: &Path,
        text: &[u8],
    ) -> Result<Arc<TopicSpec>, Close> {
        let base = self.options.topic(path);
        if text.is_empty() {
            return Ok(base.clone());
        }
        if let Some(known) = self.directory.specs().read_before(text, base) {
            return Ok(known);
        }
        let base = &base.clone();
        let spec = self.directory.specs().read(text, base)?;
        if spec.owner != base.owner {
            self.may_name_owner(requester, path, &spec)?;
        }
        if Arc::ptr_eq(&spec, base) {
            return Ok(spec);
        }
        if !self.directory.specs_mut().has_room(&spec) {
            check_room(self.memory, MemoryUse::Names, spec.bytes())?;
        }
        let spec = self.directory.specs_mut().share(spec);
        if spec.owner.is_none() {
            self.directory.specs_mut().note_read(text, base, &spec);
        }
        Ok(spec)
    }

    /// Whether somebody may have done what depends on a topic's value: a client that learns whether it was done
    /// learns something of the value, and any value can be found out with some such questions.
    pub(crate) fn may_depend_on(
        &self,
        requester: &Requester,
        path: &Path,
        made: Option<&TopicSpec>,
    ) -> Result<(), Close> {
        self.may_operate_on(requester, Action::Subscribe, path, made).map_err(|refused| {
            let reason = format!(
                "a condition, a patch, a merge, a delta or an amendment depends on what is there, which takes the right to subscribe: {}",
                refused.reason
            );
            Close::new(refused.code, reason)
        })
    }

    /// Whether somebody may have a specification name that owner: itself, or anybody by the right to
    /// administer; on a private path nobody but those it is private to.
    fn may_name_owner(
        &self,
        requester: &Requester,
        path: &Path,
        spec: &TopicSpec,
    ) -> Result<(), Close> {
        let Some(owner) = &spec.owner else { return Ok(()) };
        let principal = &requester.principal;
        let is_self = **owner == *principal.name && principal.may_own_at(path);
        if !is_self {
            self.may_operate(requester, Action::Admin, path)?;
        }
        let mut levels = within_host(path.as_str()).split('/');
        let is_private = match levels.next() {
            Some("user") => levels.next().is_some_and(|name| *name != **owner),
            _ => is_self && principal.is_kept_from(path),
        };
        if !is_private {
            return Ok(());
        }
        let reason = format!(
            "{owner} cannot own {path}, which is private to others; create it without an owner"
        );
        Err(Close::new(CloseCode::NotAuthorised, reason))
    }

    /// The topic, with a specification of its own.
    pub(crate) fn make_known(
        &mut self,
        now: Now,
        path: &Path,
        spec: Arc<TopicSpec>,
        effects: &mut Effects,
    ) -> Key {
        let key = self.directory.ensure(now, path);
        self.set_spec(key, spec, effects);
        if let Some(topic) = self.directory.get_mut(key) {
            topic.touch(now.time);
            let (topic, next_number) = (&*topic, self.home.next_number());
            let home = self.home.topic_or_new(topic);
            let changed = home.create();
            if topic.spec.persistent && (changed || home.stream().is_none()) {
                self.journal.declare(now, (key, topic, home), next_number);
            } else if home.stream().is_some() && !topic.spec.persistent {
                self.journal.end_stream(home);
            }
            self.announce_topic(key, effects);
        }
        key
    }

    pub(crate) fn run_of(&self, now: Now, path: &Path, properties: &[u8], body: &[u8]) -> Run {
        let destination = Destination { kind: Kind::Topic, path: path.clone() };
        let meta = Meta { flags: Flags::RETAIN, expires_ms: None };
        Run::single(destination, now.time, properties, body, meta)
    }

    /// Whether a topic that is about to be made can be given its first value.
    fn check_first(
        &mut self,
        requester: &Requester,
        path: &Path,
        spec: &TopicSpec,
        run: &Run,
    ) -> Result<(), Close> {
        if let Some(topic) = self.topic_named(path) {
            may_change(topic, Some(requester.session))?;
            check_values(spec, run, self.work)?;
        }
        self.check_mirror(run, Room::Unknown)?;
        let kept = if keeps(spec) { run.bytes() } else { 0 };
        let bytes = kept.max(HomeTopic::bytes_with(run));
        if !self.memory.has_room(MemoryUse::Values, bytes) {
            return Err(CloseCode::MemoryFull.into());
        }
        Ok(())
    }

    /// Publishes a run to a topic whose home this is.
    pub(crate) fn publish_here(
        &mut self,
        now: Now,
        requester: &Requester,
        key: Key,
        run: Run,
        amends: Option<u64>,
        effects: &mut Effects,
    ) -> Result<Published, Close> {
        self.metrics.messages_received += run.len() as u64;
        let session = requester.session;
        let name = Some(&requester.principal.name);
        let room = Room::Unknown;
        let publisher = Publisher { session: Some(session), name, amends, room };
        self.distribute(now, key, run, &publisher, Values::Unchecked, effects)
    }
}

/// Steps of one patch or merge: some six milliseconds.
const CHANGE_STEPS_MAX: usize = 500_000;

const _: () = assert!(
    (price::LOOKED_INTO + price::CHANGED) * CHANGED_VALUE_BYTES_MAX as u64
        + price::STEP * CHANGE_STEPS_MAX as u64
        <= PRICE_MAX,
    "a patch with conditions of the largest value is one operation"
);
const _: () = assert!(DELTA_VALUE_BYTES_MAX as u64 / price::COPIED_BYTES <= PRICE_MAX);

fn text_bytes(text: String) -> Cow<'static, [u8]> {
    Cow::Owned(text.into_bytes())
}

fn json_of<'a>(path: &Path, body: &'a [u8]) -> Result<Json<'a>, Close> {
    Json::parse(body, JSON_DEPTH_MAX).map_err(|wrong| {
        let reason = format!("the value of {path} is not JSON, so it cannot be patched: {wrong}");
        Close::new(CloseCode::BadPatch, reason)
    })
}

fn bad_patch(path: &Path, wrong: &dyn std::fmt::Display) -> Close {
    Close::new(CloseCode::BadPatch, format!("{path} was not changed: {wrong}"))
}

/// Whether it depends on a topic's value what comes of an update.
fn depends_on_value(update: &Update) -> bool {
    update.condition.is_some() || !matches!(update.change, Change::Value(_))
}

/// The new body, of no more bytes than a message may have.
fn changed<'a>(
    present: Option<&[u8]>,
    value: Option<&Run>,
    update: &'a Update,
    bytes_max: usize,
    steps: &mut Budget,
) -> Result<Cow<'a, [u8]>, Close> {
    let path = &update.path;
    let limits = Limits::default().with_bytes(bytes_max.min(CHANGED_VALUE_BYTES_MAX));
    let present = || {
        present.ok_or_else(|| {
            let reason =
                format!("the topic {path} has no value that could be changed; give it one first");
            Close::new(CloseCode::TopicUnknown, reason)
        })
    };
    match &update.change {
        Change::Value(body) => Ok(Cow::Borrowed(body)),
        Change::Delta { codec, base, delta } => {
            let version = value.map_or(0, Run::version);
            let present = present()?;
            if *base != version {
                let reason = format!(
                    "the delta is to version {base} of {path}, which is in version {version}"
                );
                return Err(Close::new(CloseCode::ConditionFailed, reason));
            }
            let most = bytes_max.min(DELTA_VALUE_BYTES_MAX);
            let made = tiderace_delta::apply(u64::from(*codec), present, delta, most);
            made.map(Cow::Owned).map_err(|wrong| bad_patch(path, &wrong))
        }
        Change::Patch(patch) => {
            let present = present()?;
            may_look_into(path, present)?;
            let json = json_of(path, present)?;
            let patch = Patch::parse(patch).map_err(|wrong| bad_patch(path, &wrong))?;
            let made = patch.apply_within(json, limits, steps);
            made.map(text_bytes).map_err(|wrong| bad_patch(path, &wrong))
        }
        Change::Merge(patch) => {
            let present = present()?;
            may_look_into(path, present)?;
            let json = json_of(path, present)?;
            let patch =
                Json::parse(patch, JSON_DEPTH_MAX).map_err(|wrong| bad_patch(path, &wrong))?;
            let made = tiderace_value::merge::apply_within(json, patch, limits, steps);
            made.map(text_bytes).map_err(|wrong| bad_patch(path, &wrong))
        }
    }
}
