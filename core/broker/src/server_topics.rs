//! What the server says of itself below `$sys/`: topics like any other, that it alone publishes to.
//!
//! Values are JSON and go by the homes of their paths, as everything does. Relies on operations and
//! publishing refusing everybody else below `$sys`. Invariant: what nobody asked for costs nothing.

use std::sync::Arc;

use tiderace_base::{Now, SessionId};
use tiderace_topics::Path;
use tiderace_value::append_text;
use tiderace_wire::{Confirm, Destination, Flags, Kind, Meta, Run, Token, is_temporary};

use crate::Principal;
use crate::authorise::is_reserved;
use crate::effects::Effects;
use crate::messages::ToHome;
use crate::session_side::SessionSide;

impl SessionSide<'_> {
    /// Makes something the value of a topic of the server's.
    pub(crate) fn show_value(&mut self, now: Now, path: Path, body: &[u8], effects: &mut Effects) {
        self.say(now, path, body, Flags::RETAIN, effects);
    }

    /// Removes a topic of the server's.
    pub(crate) fn hide_value(&mut self, now: Now, path: Path, effects: &mut Effects) {
        self.say(now, path, &[], Flags::RETAIN_REMOVE, effects);
    }

    /// Publishes something that is not kept.
    pub(crate) fn tell(&mut self, now: Now, path: Path, body: &[u8], effects: &mut Effects) {
        self.say(now, path, body, Flags::NONE, effects);
    }

    fn say(&mut self, now: Now, path: Path, body: &[u8], flags: Flags, effects: &mut Effects) {
        let destination = Destination { kind: Kind::Topic, path };
        let meta = Meta { flags, expires_ms: None };
        let run = Run::single(destination, now.time, crate::views::JSON, body, meta);
        let home = self.options.home_of(&run.destination().path);
        self.send(home, ToHome::of_server(run), effects);
    }
}

/// Messages of somebody who may be the owner of their topic.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) run: Run,
    pub(crate) origin: SessionId,
    pub(crate) author: Arc<str>,
    pub(crate) confirm: Option<Confirm>,
    pub(crate) blame: Option<Token>,
}

/// Whether nothing is said of a path: it is the server's own, or known to those alone who were told.
pub(crate) fn is_unspoken(path: &Path) -> bool {
    is_reserved(path) || is_temporary(path)
}

/// The beginning of a JSON object that says who a session is.
pub(crate) fn begin_who(session: SessionId, principal: &Principal) -> Vec<u8> {
    let mut body = format!(r#"{{"session":"{session}","name":"#).into_bytes();
    append_text(&mut body, &principal.name);
    body.extend_from_slice(format!(r#","anonymous":{}"#, principal.anonymous).as_bytes());
    body
}

/// Appends `,"name":"text"`.
pub(crate) fn append_member(body: &mut Vec<u8>, name: &str, text: &str) {
    body.extend_from_slice(format!(",\"{name}\":").as_bytes());
    append_text(body, text);
}
