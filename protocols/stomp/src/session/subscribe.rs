//! SUBSCRIBE and UNSUBSCRIBE (STOMP 1.2, "SUBSCRIBE" and "UNSUBSCRIBE").
//!
//! Relies on `destination` for what is listened to. Invariant: a header that asks for something the
//! server cannot do is refused, never ignored.

use std::borrow::Cow;

use tiderace_base::{Close, CloseCode, Span};
use tiderace_filter::Selector;
use tiderace_wire::{
    Command, Context, Destination, Kind, Operation, Prefetch, Replay, Subscribe, SubscriptionKey,
    Target, is_durable,
};

use super::browse::browsing;
use super::durable::{is_persistent, operate};
use super::request::{Request, number};
use super::sequence::{from_seq, include_seq};
use super::state::StompSession;
use super::subscription::{AckMode, Name, Subscription};
use crate::destination::{is_topic, parse_targets, style_of, without_ends};
use crate::error::{bad_header, fault, missing, shown};
use crate::version::Version;

impl StompSession {
    pub(super) fn subscribe(
        &mut self,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let destination = request.require("destination")?;
        let destination = without_ends(&destination);
        let (name, is_destination) = name(self.version, request, Some(&destination))?;
        let name = Name { text: &name, is_destination };
        if self.subscriptions.find(self.version, name).is_some() {
            let text = format_args!(
                "a subscription `{}` exists already. Choose another id.",
                shown(name.text.as_bytes())
            );
            return Err(fault(CloseCode::DuplicateSubscription, request.command, text));
        }
        let max = self.options.subscriptions_max;
        if self.subscriptions.len() >= max {
            let text = format_args!("the session has {max} subscriptions already. End some first.");
            return Err(fault(CloseCode::TooManySubscriptions, request.command, text));
        }
        let mode = ack_mode(request)?;
        let targets = parse_targets(&destination, &self.temporary).map_err(|error| {
            let text = format_args!("`{}`: {error}", shown(destination.as_bytes()));
            fault(CloseCode::BadDestination, request.command, text)
        })?;
        let browsing = browsing(request, &targets)?;
        let mut selector = selector(request)?;
        let mut durable = None;
        let mut targets = targets;
        if is_persistent(request)? {
            let made = self.durable_of(request, name.text, (targets, selector.take()))?;
            let path = made.queue.clone();
            targets = vec![Target::Exact(Destination { kind: Kind::Queue, path })];
            durable = Some(Box::new(made));
        }
        let codec = self.delta_codec(request, mode, &targets)?;
        let prefetch = credit(request)?;
        let credit = topic_credit(request, prefetch, mode, &targets)?;
        let (replay, interval) = pace(request, &targets)?;
        let start = from_seq(request, &targets)?;
        let sequence = include_seq(request)?;
        let exclusive = request.headers.find_raw("exclusive") == Some(b"true");
        let mut confirm = self.owe(request.command, request.headers, 1)?;
        let style = match &*targets {
            // Its messages say to which topic they were published.
            [Target::Exact(queue)] if is_durable(&queue.path) => Some(style_of(&destination)),
            [Target::Exact(_)] => None,
            _ => Some(style_of(&destination)),
        };
        let mut subscription = Subscription::new(self.version, name, &destination, style, mode);
        if let Some(name) = sequence {
            subscription.say_sequence(&name);
        }
        subscription.codec = codec;
        subscription.has_credit = credit.is_some();
        let key = self.subscriptions.insert(subscription);
        self.flush(context.commands);
        if let Some(durable) = durable {
            // The answer to this comes last, for every home has to hear of it.
            let token = confirm.take().unwrap_or_else(|| self.await_unasked(1));
            operate(token, Operation::CreateSubscription(durable), context);
        }
        context.commands.push(Command::Subscribe(Box::new(Subscribe {
            selector,
            explicit: mode != AckMode::Auto,
            prefetch,
            credit,
            exclusive,
            browsing,
            confirm,
            deltas: codec != 0,
            start: start.queue,
            retained: start.retained,
            replay: replay.or(start.replay),
            interval,
            ..Subscribe::new(key, targets)
        })));
        Ok(())
    }

    pub(super) fn unsubscribe(
        &mut self,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let destination = request.find("destination")?;
        let destination = destination.as_deref().map(without_ends);
        let (name, is_destination) = name(self.version, request, destination.as_deref())?;
        let name = Name { text: &name, is_destination };
        let ends = is_persistent(request)?;
        let Some(key) = self.subscriptions.find(self.version, name) else {
            if ends {
                self.flush(context.commands);
                return self.end_durable(request, name.text, context);
            }
            let by_id =
                if is_destination { " without an id. One with an id ends by it" } else { "" };
            let text =
                format_args!("there is no subscription `{}`{by_id}.", shown(name.text.as_bytes()));
            return Err(fault(CloseCode::UnknownSubscription, request.command, text));
        };
        let confirm = match ends {
            true => None,
            false => self.owe(request.command, request.headers, 1)?,
        };
        self.subscriptions.remove(key);
        if let Some(bases) = self.cold.as_mut().and_then(|cold| cold.bases.as_mut()) {
            bases.remove(key);
        }
        self.flush(context.commands);
        context.commands.push(Command::Unsubscribe { key, confirm });
        if ends {
            return self.end_durable(request, name.text, context);
        }
        Ok(())
    }
}

impl StompSession {
    /// The broker has ended a subscription, or has refused one whose client wants no receipt. STOMP has no frame for that
    /// but ERROR, which ends the session and names the subscription.
    pub(super) fn subscription_ended(
        &mut self,
        key: SubscriptionKey,
        close: Close,
    ) -> Result<(), Close> {
        // One that is not there the client has ended itself.
        let Some(known) = self.subscriptions.get(key) else { return Ok(()) };
        self.cold().blamed = Some(known.lines().into());
        Err(close)
    }
}

/// How the client names the subscription, and whether by its destination: in 1.0 the id is
/// optional.
fn name<'a>(
    version: Version,
    request: &Request<'a>,
    destination: Option<&'a str>,
) -> Result<(Cow<'a, str>, bool), Close> {
    let id = request.headers.find("id");
    let id = id.map_err(|why| crate::error::unreadable(request.command, why))?;
    match (id, destination) {
        (Some(id), _) => Ok((id, false)),
        (None, Some(destination)) if version == Version::V10 => Ok((destination.into(), true)),
        (None, _) => Err(missing(request.command, "id")),
    }
}

fn ack_mode(request: &Request<'_>) -> Result<AckMode, Close> {
    match request.headers.find_raw("ack") {
        None | Some(b"auto" | b"none") => Ok(AckMode::Auto),
        Some(b"client") => Ok(AckMode::Client),
        Some(b"client-individual") => Ok(AckMode::ClientIndividual),
        Some(other) => {
            let text = format_args!(
                "`ack:{}` is not known. Use `auto`, `client` or `client-individual`.",
                shown(other)
            );
            Err(bad_header(request.command, text))
        }
    }
}

fn selector(request: &Request<'_>) -> Result<Option<Selector>, Close> {
    let Some(text) = request.find("selector")? else {
        return Ok(None);
    };
    Selector::parse(&text)
        .map(Some)
        .map_err(|error| fault(CloseCode::BadSelector, request.command, format_args!("{error}.")))
}

/// `replay` and `interval`: where to begin in what topics keep, and how often each may come.
fn pace(request: &Request<'_>, targets: &[Target]) -> Result<(Option<Replay>, Span), Close> {
    let headers = request.headers;
    let (from, every) = (headers.find_raw("replay"), headers.find_raw("interval"));
    if (from.is_some() || every.is_some()) && !targets.iter().all(is_topic) {
        let text = "`replay` and `interval` are for topics. Leave them out.";
        return Err(bad_header(request.command, text));
    }
    let replay = from.map(|text| {
        replay(text).ok_or_else(|| {
            let text = format_args!(
                "`replay:{}` is not known. Use `last=10`, `version=7` or \
                 `since=1700000000000` (milliseconds).",
                shown(text)
            );
            bad_header(request.command, text)
        })
    });
    let interval = every.map(|text| {
        number(text).map(Span::from_millis).ok_or_else(|| {
            let text = format_args!("`interval:{}` is no number of milliseconds.", shown(text));
            bad_header(request.command, text)
        })
    });
    Ok((replay.transpose()?, interval.transpose()?.unwrap_or_default()))
}

fn replay(text: &[u8]) -> Option<Replay> {
    let at = text.iter().position(|byte| *byte == b'=')?;
    let (what, value) = (text.get(..at)?, number(text.get(at + 1..)?)?);
    Some(match what {
        b"last" => Replay::Last(u32::try_from(value).ok()?),
        b"version" => Replay::Version(value),
        b"since" => Replay::Time(value),
        _ => return None,
    })
}

/// How many messages that are not acknowledged may be under way of topics. (Of queues, their home sees
/// to the prefetch.) What comes of a topic meanwhile is conflated.
fn topic_credit(
    request: &Request<'_>,
    prefetch: Option<Prefetch>,
    mode: AckMode,
    targets: &[Target],
) -> Result<Option<u64>, Close> {
    let Some(prefetch) = prefetch.filter(|_| targets.iter().any(is_topic)) else { return Ok(None) };
    match prefetch {
        // What is acknowledged by being sent is never under way unacknowledged.
        _ if mode == AckMode::Auto => Ok(None),
        Prefetch { messages: 0, bytes: 0 } => Ok(None),
        Prefetch { messages: 0, .. } => {
            let text = "on a topic `credit` counts messages; bytes count on queues alone. \
                        Say a number of messages above zero.";
            Err(bad_header(request.command, text))
        }
        Prefetch { messages, .. } => Ok(Some(u64::from(messages))),
    }
}

/// `credit:messages[,bytes]`; zero means that this one does not count.
fn credit(request: &Request<'_>) -> Result<Option<Prefetch>, Close> {
    let Some(text) = request.headers.find_raw("credit") else {
        return Ok(None);
    };
    let bad = || {
        let text = format_args!(
            "`credit:{}` is not a number of messages, or two numbers joined by a comma: \
             messages and bytes.",
            shown(text)
        );
        bad_header(request.command, text)
    };
    let mut numbers = text
        .split(|byte| *byte == b',')
        .map(|part| number(part).and_then(|number| u32::try_from(number).ok()).ok_or_else(bad));
    let messages = numbers.next().unwrap_or_else(|| Err(bad()))?;
    let bytes = numbers.next().unwrap_or(Ok(0))?;
    if numbers.next().is_some() {
        return Err(bad());
    }
    Ok(Some(Prefetch { messages, bytes }))
}
