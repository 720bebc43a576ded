//! The shard that keeps the list of views: it checks, numbers and announces them.
//!
//! Relies on being one shard, so that changes of views have one order. Invariant: what the list says
//! is what `$sys/views/` shows.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now};
use tiderace_topics::Path;
use tiderace_value::append_text;
use tiderace_views::View;
use tiderace_wire::{
    Destination, Flags, Kind, Meta, OperationResult, Run, TopicSpec, ViewEntry, is_temporary,
};

use super::VIEWS_MAX;
use crate::Action;
use crate::authorise::is_reserved;
use crate::effects::Effects;
use crate::messages::{ToHome, ToViews};
use crate::places::{PlaceSet, REGISTRAR};
use crate::requester::Operated;
use crate::requester::Requester;
use crate::view_side::ViewSide;

/// Below it stands a topic for each view.
const FOLDER: &str = "$sys/views/";

impl ViewSide<'_> {
    /// At the registrar: a view is to begin, to change or to end.
    pub(crate) fn change_view(
        &mut self,
        now: Now,
        requester: &Requester,
        name: &Path,
        text: Option<&str>,
        effects: &mut Effects,
    ) -> Operated {
        self.may_change_view(requester, name)?;
        let known = self.views.known.iter().find(|(_, entry)| entry.name == *name);
        let (known, kept) = known.map(|(rank, entry)| (*rank, entry.kept)).unzip();
        let kept = kept.flatten();
        let version = self.views.version + 1;
        if !self.home.options.configures_view(name) {
            self.home.journal.check_outage()?;
        }
        match (text, known) {
            (None, None) => {
                let reason = format!("there is no view {name}");
                Err(Close::new(CloseCode::ViewUnknown, reason))
            }
            (None, Some(rank)) => {
                self.announce_view(now, || ToViews::Remove { rank, version }, effects);
                if let Some(number) = kept {
                    self.home.journal.append_view(number, None);
                }
                self.show_view(now, name, None, effects);
                Ok(OperationResult::Done)
            }
            (Some(text), known) => {
                if known.is_none() && self.views.known.len() >= VIEWS_MAX {
                    let reason = format!("there are {VIEWS_MAX} views already; remove one first");
                    return Err(Close::new(CloseCode::TooManyTopics, reason));
                }
                let view = Arc::new(self.checked_view(text)?);
                let rank = known.unwrap_or(self.views.next_rank);
                self.views.next_rank = self.views.next_rank.max(rank + 1);
                let put = |view| ToViews::Put { name: name.clone(), view, rank, version };
                self.announce_view(now, || put(view.clone()), effects);
                self.keep_view(name, rank, kept);
                self.show_view(now, name, Some(rank), effects);
                Ok(OperationResult::Done)
            }
        }
    }

    /// A view that a client has put, in place of the one that was kept under a number, is kept.
    fn keep_view(&mut self, name: &Path, rank: u32, number: Option<u64>) {
        if !self.home.journal.is_open() || self.home.options.configures_view(name) {
            return;
        }
        let views = &mut *self.views;
        let Some(entry) = views.known.get_mut(&rank) else { return };
        let number = number.unwrap_or(views.last_kept + 1);
        views.last_kept = views.last_kept.max(number);
        entry.kept = Some(number);
        self.home.journal.append_view(number, Some((&entry.name, &entry.view)));
    }

    /// All views, in the order of their names.
    pub(crate) fn list_views(&self, requester: &Requester) -> Operated {
        let mut entries: Vec<ViewEntry> = Vec::new();
        for entry in self.views.known.values() {
            if self.may_list_view(requester, &entry.name) {
                let (name, text) = (entry.name.clone(), entry.view.text().into());
                entries.push(ViewEntry { name, text });
            }
        }
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(OperationResult::Views(entries))
    }

    fn may_change_view(&self, requester: &Requester, name: &Path) -> Result<(), Close> {
        let principal = &requester.principal;
        let shown = shown_at(name)?;
        if self.home.options.rules.authorise(principal, Action::Admin, Kind::Topic, &shown) {
            return Ok(());
        }
        let admin = Action::Admin;
        Err(crate::authorise::denied(&principal.name, admin, Kind::Topic, shown.as_str()))
    }

    fn may_list_view(&self, requester: &Requester, name: &Path) -> bool {
        let Ok(shown) = shown_at(name) else { return false };
        [Action::Admin, Action::Monitor].into_iter().any(|action| {
            self.home.options.rules.authorise(&requester.principal, action, Kind::Topic, &shown)
        })
    }

    /// A view whose outputs can be published.
    fn checked_view(&self, text: &str) -> Result<View, Close> {
        let bad = |reason: String| Close::new(CloseCode::BadView, reason);
        let view = View::parse(text).map_err(|error| bad(error.to_string()))?;
        if view.single_output().is_some_and(|path| is_reserved(&path) || is_temporary(&path)) {
            let reason = "outputs cannot be below $sys, which is the server's own, nor below temp, where sessions have their own destinations";
            return Err(bad(reason.to_owned()));
        }
        self.check_upstreams(&view).map_err(bad)?;
        output_spec(&view, &TopicSpec::default()).map_err(|error| bad(error.to_string()))?;
        Ok(view)
    }

    /// Whether the upstream is there that a view names, and its output is not one of an upstream's topics.
    fn check_upstreams(&self, view: &View) -> Result<(), String> {
        let options = &self.home.options;
        let own = view.single_output().and_then(|path| Some((options.upstream_of(&path)?, path)));
        if let Some((upstream, path)) = own {
            let name = &upstream.name;
            return Err(format!(
                "{path} is a topic of the upstream {name}; outputs are topics of this server, so name another path"
            ));
        }
        let known = |name: &str| options.upstreams.iter().any(|upstream| *upstream.name == *name);
        match view.upstream().filter(|name| !known(name)) {
            None => Ok(()),
            Some(name) if options.upstreams.is_empty() => {
                Err(format!("there is no upstream {name:?}: this server has none"))
            }
            Some(name) => {
                let names: Vec<&str> = options.upstreams.iter().map(|it| &*it.name).collect();
                Err(format!("there is no upstream {name:?}; there are: {}", names.join(", ")))
            }
        }
    }

    /// Tells every shard, this one included.
    fn announce_view(&mut self, now: Now, message: impl Fn() -> ToViews, effects: &mut Effects) {
        for place in PlaceSet::all(self.home.options.shards).iter() {
            if place == self.home.here() {
                // What is kept and shown of the view is what it is then.
                self.on_message(now, place, message(), effects);
            } else {
                self.home.send(place, message(), effects);
            }
        }
    }

    /// Says below `$sys/views/` what a view is and how it fares; of one that is gone, nothing.
    fn show_view(&mut self, now: Now, name: &Path, rank: Option<u32>, effects: &mut Effects) {
        let Ok(path) = shown_at(name) else { return };
        let mut body = Vec::new();
        let mut flags = Flags::RETAIN_REMOVE;
        if let Some((rank, entry)) =
            rank.and_then(|rank| Some((rank, self.views.known.get_mut(&rank)?)))
        {
            flags = Flags::RETAIN;
            entry.told = true;
            body.extend_from_slice(b"{\"view\":");
            append_text(&mut body, entry.view.text());
            body.extend_from_slice(format!(",\"order\":{rank}").as_bytes());
            body.extend_from_slice(format!(",\"problems\":{}", entry.problems).as_bytes());
            if entry.problems > 0 {
                body.extend_from_slice(b",\"last_problem\":");
                append_text(&mut body, &entry.last_problem);
            }
            body.push(b'}');
        }
        let destination = Destination { kind: Kind::Topic, path };
        let meta = Meta { flags, expires_ms: None };
        let home = self.home.options.home_of(&destination.path);
        let run = Run::single(destination, now.time, super::JSON, &body, meta);
        self.home.send(home, ToHome::of_server(run), effects);
    }

    /// Tells the registrar what could not be done; the registrar shows it.
    pub(super) fn report_view_problems(&mut self, now: Now, effects: &mut Effects) {
        let registrar = REGISTRAR;
        for (rank, (problem, count)) in std::mem::take(&mut self.views.problems) {
            if self.home.here() == registrar {
                self.views.note_problem(rank, problem, count);
            } else {
                self.home.send(registrar, ToViews::Problem { rank, problem, count }, effects);
            }
        }
        if self.home.here() != registrar {
            return;
        }
        let news = self.views.known.iter().filter(|(_, entry)| !entry.told);
        let news: Vec<(u32, Path)> =
            news.map(|(rank, entry)| (*rank, entry.name.clone())).collect();
        for (rank, name) in news {
            self.show_view(now, &name, Some(rank), effects);
        }
    }
}

/// The topic that shows a view.
fn shown_at(name: &Path) -> Result<Path, Close> {
    Path::parse(&format!("{FOLDER}{name}"))
        .map_err(|error| Close::new(CloseCode::BadView, format!("the view's name: {error}")))
}

/// What the outputs of a view are, on paths of which the configuration says that much.
pub(super) fn output_spec(view: &View, base: &TopicSpec) -> Result<TopicSpec, Close> {
    let options = view.options();
    let mut text = b"{".to_vec();
    let kind = match options.kind {
        Some(kind) => kind.name(),
        None if view.is_transparent() => base.value.name(),
        None => "json",
    };
    text.extend_from_slice(b"\"type\":");
    append_text(&mut text, kind);
    for (name, value) in &options.properties {
        text.push(b',');
        append_text(&mut text, name);
        text.push(b':');
        match tiderace_value::Json::parse(value.as_bytes(), 8) {
            Ok(json) => text.extend_from_slice(json.text().as_bytes()),
            Err(_) => append_text(&mut text, value),
        }
    }
    text.push(b'}');
    let spec = TopicSpec::parse(&text, base)?;
    // Outputs come and go with their sources.
    Ok(TopicSpec { retain: true, persistent: false, removal: None, ..spec })
}
