//! SUBSCRIBE with `browser:true`: the messages of a queue are shown and stay there, as Apollo spells it.
//!
//! Relies on the broker for what is shown. Invariant: the frame that ends a browser comes behind all that it was shown, and
//! can be acknowledged like them.

use tiderace_base::Close;
use tiderace_wire::{Browsing, Context, Destination, Kind, SubscriptionKey, Target};

use super::durable::is_persistent;
use super::request::Request;
use super::state::StompSession;
use super::subscription::AckMode;
use crate::encode::Tag;
use crate::error::{bad_header, shown};
use crate::server_frame;

/// No message has this number, and there is one behind it, as behind those of messages.
const NO_MESSAGE: u64 = u64::MAX - 1;

/// Whether `browser` asks for that, and how it ends.
pub(super) fn browsing(
    request: &Request<'_>,
    targets: &[Target],
) -> Result<Option<Browsing>, Close> {
    if !truth(request, "browser")?.unwrap_or(false) {
        return Ok(None);
    }
    if !matches!(targets, [Target::Exact(Destination { kind: Kind::Queue, .. })]) {
        let text = "`browser:true` is for one queue, and not for topics, wildcards or several. \
                    Name one.";
        return Err(bad_header(request.command, text));
    }
    if is_persistent(request)? {
        let text = "`browser:true` takes nothing, and `persistent:true` gathers. \
                    Browse `/dsub/ID` instead.";
        return Err(bad_header(request.command, text));
    }
    if request.headers.find_raw("exclusive") == Some(b"true") {
        let text = "`browser:true` takes nothing and cannot be `exclusive:true`. \
                    Leave one of them out.";
        return Err(bad_header(request.command, text));
    }
    Ok(Some(match truth(request, "browser-end")? {
        Some(false) => Browsing::Following,
        _ => Browsing::ToEnd,
    }))
}

/// A header that is `true` or `false`.
fn truth(request: &Request<'_>, name: &str) -> Result<Option<bool>, Close> {
    match request.headers.find_raw(name) {
        None => Ok(None),
        Some(b"true") => Ok(Some(true)),
        Some(b"false") => Ok(Some(false)),
        Some(other) => {
            let text = format_args!("`{name}:{}` is neither `true` nor `false`.", shown(other));
            Err(bad_header(request.command, text))
        }
    }
}

impl StompSession {
    /// A browser has been shown all that was there.
    pub(super) fn browsed(&mut self, key: SubscriptionKey, context: &mut Context<'_>) {
        let version = self.version;
        let Some(subscription) = self.subscriptions.get(key) else { return };
        let (lines, is_auto) = (subscription.lines(), subscription.mode == AckMode::Auto);
        let tag = (!is_auto).then(|| self.remember_end(key));
        server_frame::browser_end(version, &lines, (key.0, tag), &mut context.output);
    }

    /// The frame that ends a browser can be acknowledged as no message is.
    fn remember_end(&mut self, key: SubscriptionKey) -> Tag {
        let cold = self.cold();
        cold.tags += 1;
        let number = cold.tags;
        if let Some(subscription) = self.subscriptions.get_mut(key) {
            let unacked = subscription.unacked.get_or_insert_default();
            unacked.push(number, 0, NO_MESSAGE);
        }
        Tag { key: key.0, number }
    }
}
