//! The state machine.

use std::collections::HashMap;

use tiderace_delta::{CODECS, Codec};
use tiderace_native::codec::{
    self, Auth, CallMessage, ClientMessage, CodecError, Content, Hello, Messages, OperateMessage,
    Publish, SendMessage, ServerMessage, SettleMessage, Updates, VERSION, flag, subscribe,
};
use tiderace_wire::{Numbering, Position, read_varint};

use crate::subscription::{Subscription, Topic};
use crate::{ClientError, Event, SubscribeOptions, Update};

/// A client. What it says is appended to the transport message that its caller collects.
#[derive(Debug)]
pub struct Client {
    name: String,
    next_request: u32,
    next_call: u32,
    position: Option<Position>,
    /// Of the life of the server that it is connected to.
    epoch: u64,
    subscriptions: Vec<Option<Subscription>>,
    /// SUBSCRIBEs and UNSUBSCRIBEs that have not been answered, by request.
    unanswered: HashMap<u32, u32>,
    /// By topic id: the subscription and the path.
    announced: Vec<Option<(u32, String)>>,
    /// The codecs of deltas that it offers, best first; then the one that was agreed on.
    codecs: Vec<&'static Codec>,
    codec: u64,
    bytes_max: usize,
}

impl Client {
    /// A client that calls itself that.
    pub fn new(name: &str) -> Client {
        Client {
            name: name.to_owned(),
            next_request: 1,
            next_call: 1,
            position: None,
            epoch: 0,
            subscriptions: Vec::new(),
            unanswered: HashMap::new(),
            announced: Vec::new(),
            codecs: CODECS.iter().collect(),
            codec: 0,
            bytes_max: 64 << 20,
        }
    }

    /// Takes deltas by these codecs alone, best first; by itself it takes all, our own before others.
    pub fn with_codecs(self, names: &[&str]) -> Client {
        Client { codecs: names.iter().filter_map(|name| Codec::named(name)).collect(), ..self }
    }

    /// Begins on a new connection. Subscriptions that were there are made again under their ids, and
    /// recoverable ones go on where they left off.
    pub fn connect(&mut self, auth: Auth<'_>, out: &mut Vec<u8>) {
        self.next_request = 1;
        self.unanswered.clear();
        self.announced.clear();
        let mut position = Vec::new();
        if let Some(known) = &self.position {
            known.write(&mut position);
        }
        let hello = Hello {
            version: VERSION,
            auth,
            codecs: self.codecs.iter().map(|codec| codec.number.into()).collect(),
            client: &self.name,
            position: &position,
            host: None,
            edge: None,
        };
        ClientMessage::Hello(hello).write(out);
        let (next, unanswered) = (&mut self.next_request, &mut self.unanswered);
        for (id, slot) in (0u32..).zip(&mut self.subscriptions) {
            slot.take_if(|known| known.ended);
            let Some(known) = slot else { continue };
            let resume = self.position.is_some()
                && known.options.has(subscribe::RECOVERABLE)
                && !known.options.has(subscribe::OK_LAST);
            known.restart(resume);
            let message = known.options.message(*next, id, resume);
            ClientMessage::Subscribe(message).write(out);
            unanswered.insert(*next, id);
            *next = after(*next);
        }
    }

    /// Where it is; kept by itself over reconnections, or by the caller over restarts.
    pub fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// Begins at a position that was kept elsewhere; to be told before [`Client::connect`].
    pub fn set_position(&mut self, position: Position) {
        self.position = Some(position);
    }

    /// The id of the next request that wants an answer.
    pub fn next_request(&mut self) -> u32 {
        let request = self.next_request;
        self.next_request = after(request);
        request
    }

    /// Subscribes; the subscription's id.
    pub fn subscribe(&mut self, options: SubscribeOptions, out: &mut Vec<u8>) -> u32 {
        let request = self.next_request();
        let free = self.subscriptions.iter().position(Option::is_none);
        let place = free.unwrap_or(self.subscriptions.len());
        let id = place as u32;
        ClientMessage::Subscribe(options.message(request, id, false)).write(out);
        self.unanswered.insert(request, id);
        let subscription = Some(Subscription::new(options));
        match self.subscriptions.get_mut(place) {
            Some(slot) => *slot = subscription,
            None => self.subscriptions.push(subscription),
        }
        id
    }

    /// Ends a subscription; the request. Nothing more is told of it.
    pub fn unsubscribe(&mut self, subscription: u32, out: &mut Vec<u8>) -> u32 {
        let request = self.next_request();
        ClientMessage::Unsubscribe { request, subscription }.write(out);
        if let Some(Some(known)) = self.subscriptions.get_mut(subscription as usize) {
            known.ended = true;
            self.unanswered.insert(request, subscription);
        }
        request
    }

    /// Publishes; the request if an answer is wanted.
    pub fn publish(
        &mut self,
        message: Publish<'_>,
        confirmed: bool,
        out: &mut Vec<u8>,
    ) -> Option<u32> {
        let request = confirmed.then(|| self.next_request());
        let message = Publish { request: request.unwrap_or_default(), ..message };
        ClientMessage::Publish(message).write(out);
        request
    }

    /// Does something with topics; the request. What comes of it is [`Event::Outcome`], with the
    /// values that are called `bytes` in its text.
    pub fn operate(&mut self, operation: &str, body: Option<&[u8]>, out: &mut Vec<u8>) -> u32 {
        let request = self.next_request();
        ClientMessage::Operate(OperateMessage { request, operation, body }).write(out);
        request
    }

    /// Asks the server whether it is there; the answer is [`Event::Pong`] with the same bytes.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        ClientMessage::Ping(b"").write(out);
    }

    /// Says goodbye: nothing that was sent before is lost, and the will is not published.
    pub fn bye(&mut self, out: &mut Vec<u8>) {
        ClientMessage::Bye.write(out);
    }

    /// Settles messages of a queue; the request.
    pub fn settle(&mut self, settle: SettleMessage, out: &mut Vec<u8>) -> u32 {
        let request = self.next_request();
        ClientMessage::Settle(SettleMessage { request, ..settle }).write(out);
        request
    }

    /// Calls a service; the number of the exchange, by which its messages and its end are told. After so long
    /// without a word of the responder the server ends it; 0 leaves that to the server. With `is_last` nothing
    /// more is said to the responder.
    pub fn call(&mut self, call: CallMessage<'_>, is_last: bool, out: &mut Vec<u8>) -> u32 {
        let number = self.next_call;
        self.next_call = after(number);
        let flags = call.flags | if is_last { flag::LAST } else { 0 };
        ClientMessage::Call(CallMessage { number, flags, ..call }).write(out);
        number
    }

    /// Says something in an exchange, as its caller or, with [`flag::RESPONDER`], as its responder.
    pub fn say(&mut self, message: SendMessage<'_>, out: &mut Vec<u8>) {
        ClientMessage::Send(message).write(out);
    }

    /// Ends an exchange: with code 705 (`call-cancelled`) as a caller who gives up, with 708 (`call-failed`)
    /// as a responder who cannot do what was asked.
    pub fn cancel(
        &mut self,
        responder: bool,
        number: u32,
        code: u16,
        sentence: &str,
        out: &mut Vec<u8>,
    ) {
        ClientMessage::Cancel { responder, number, code, sentence }.write(out);
    }

    /// Whether the last that was asked of a subscription, its begin or its end, has not been answered.
    pub fn awaits(&self, subscription: u32) -> bool {
        self.unanswered.values().any(|known| *known == subscription)
    }

    /// What it subscribes to under an id.
    pub fn subscription(&self, id: u32) -> Option<&SubscribeOptions> {
        let known = self.subscriptions.get(id as usize)?.as_ref()?;
        Some(&known.options)
    }

    /// Takes a transport message in and tells what it says.
    ///
    /// # Errors
    /// When it cannot be used; the connection is to be ended then.
    pub fn receive(
        &mut self,
        message: &[u8],
        mut tell: impl FnMut(Event<'_>),
    ) -> Result<(), ClientError> {
        for message in Messages::new(message) {
            let (kind, payload) = message?;
            self.take(ServerMessage::read(kind, payload)?, &mut tell)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        message: ServerMessage<'_>,
        tell: &mut impl FnMut(Event<'_>),
    ) -> Result<(), ClientError> {
        match message {
            ServerMessage::Welcome(welcome) => {
                self.welcomed(welcome.epoch)?;
                self.codec = welcome.codecs.first().copied().unwrap_or_default();
                self.bytes_max = usize::try_from(welcome.message_bytes_max).unwrap_or(usize::MAX);
                tell(Event::Welcome(welcome));
            }
            ServerMessage::Ok { first, last } => {
                self.settled(first, last, tell);
                self.answered(first, last);
                tell(Event::Done { first, last });
            }
            ServerMessage::Error { request, code, slug, sentence } => {
                if let Some(id) = self.unanswered.remove(&request)
                    && let Some(slot) = self.subscriptions.get_mut(id as usize)
                {
                    *slot = None;
                }
                tell(Event::Refused { request, code, slug, sentence });
            }
            ServerMessage::Topic { topic, subscription, path } => {
                self.announce(topic, subscription, path)?;
            }
            ServerMessage::Updates(entries) => {
                for update in Updates::new(entries) {
                    self.update(&update?, tell)?;
                }
            }
            ServerMessage::Queued(mut queued) => {
                let announced = queued.flags & flag::ANNOUNCED != 0;
                let (subscription, path) = self.subscription_of(announced, queued.id)?;
                queued.id = subscription;
                tell(Event::Queued(queued, path));
            }
            ServerMessage::Exchange(mut message) => {
                let announced = message.flags & flag::SERVICE_ANNOUNCED != 0;
                let (subscription, path) =
                    self.subscription_of(announced, message.id.unwrap_or_default())?;
                message.id = message.id.map(|_| subscription);
                tell(Event::Exchange(message, path));
            }
            ServerMessage::Position(numbers) => {
                // Until now the one of the life before was good for coming back.
                let epoch = self.epoch;
                self.position.take_if(|known| known.epoch != epoch);
                let position = self.position.get_or_insert_with(|| Position::new(epoch));
                for (written, number) in numbers {
                    if let Some(numbering) = Numbering::read(position.epoch, written) {
                        position.advance_to(numbering, number);
                    }
                }
            }
            ServerMessage::Follows { flags, id, version } => {
                if let Some(known) = self.topic(flags, id)? {
                    known.topic.follows = Some(version);
                }
            }
            ServerMessage::Browsed { subscription } => tell(Event::Browsed { subscription }),
            ServerMessage::Unsubscribed { subscription, code, slug, sentence } => {
                // One whose UNSUBSCRIBE has crossed this is not spoken of: its id is free when that is answered.
                let slot = self.subscriptions.get_mut(subscription as usize);
                if slot.and_then(|slot| slot.take_if(|known| !known.ended)).is_some() {
                    tell(Event::Unsubscribed { subscription, code, slug, sentence });
                }
            }
            // Nothing here asks for that.
            ServerMessage::Wanted { .. } => {}
            ServerMessage::Recovered { request, complete, continues } => {
                let subscription = self.unanswered.get(&request).copied();
                let subscription = subscription.ok_or(ClientError::UnknownId)?;
                let known = self.subscriptions.get_mut(subscription as usize);
                if let Some(known) = known.and_then(Option::as_mut).filter(|_| !continues) {
                    known.forget();
                }
                tell(Event::Recovered { subscription, complete });
            }
            ServerMessage::Ended { responder, number, slug, sentence, .. } => {
                tell(Event::Ended { responder, number, slug, sentence });
            }
            ServerMessage::Pong(bytes) => tell(Event::Pong(bytes)),
            ServerMessage::Close { code, slug, sentence, reconnect, jitter_ms, addresses } => {
                let reconnect_ms = reconnect.then_some(jitter_ms);
                tell(Event::Closed { code, slug, sentence, reconnect_ms, addresses });
            }
            ServerMessage::LoggedIn { name, .. } => tell(Event::LoggedIn(name)),
            ServerMessage::Result(result) => tell(Event::Outcome(result)),
            ServerMessage::Joined { subscription, path, spec, .. } => {
                tell(Event::Joined { subscription, path, spec });
            }
            ServerMessage::Left { subscription, path, reason } => {
                let known = self.subscriptions.get_mut(subscription as usize);
                if let Some(known) = known.and_then(Option::as_mut).filter(|_| reason != "removed")
                {
                    known.hide(path);
                }
                tell(Event::Left { subscription, path, reason });
            }
            // Only edges are told it.
            ServerMessage::Nodes(_) | ServerMessage::Other(_) => {}
        }
        Ok(())
    }

    /// Subscriptions that have begun or ended for good.
    fn answered(&mut self, first: u32, last: u32) {
        let subscriptions = &mut self.subscriptions;
        self.unanswered.retain(|request, id| {
            let stays = !(first..=last).contains(request);
            if !stays && let Some(slot) = subscriptions.get_mut(*id as usize) {
                slot.take_if(|known| known.ended);
            }
            stays
        });
    }

    /// A position of another epoch is of use until the first of this one comes: nothing has been told since.
    fn welcomed(&mut self, mut epoch: &[u8]) -> Result<(), ClientError> {
        let epoch = read_varint(&mut epoch).ok_or(CodecError::Cut)?;
        self.epoch = epoch;
        self.position.get_or_insert_with(|| Position::new(epoch));
        Ok(())
    }

    fn announce(&mut self, topic: u32, subscription: u32, path: &str) -> Result<(), ClientError> {
        let place = topic as usize;
        // Ids are given in order, so a far one is a defect and no reason to take memory.
        if place > self.announced.len() + ANNOUNCED_AHEAD_MAX {
            return Err(ClientError::UnknownId);
        }
        if place >= self.announced.len() {
            self.announced.resize(place + 1, None);
        }
        if let Some(slot) = self.announced.get_mut(place) {
            *slot = Some((subscription, path.to_owned()));
        }
        Ok(())
    }

    /// The subscription that an id belongs to, and its path if it is an announced one.
    fn subscription_of(
        &self,
        announced: bool,
        id: u32,
    ) -> Result<(u32, Option<&str>), ClientError> {
        if !announced {
            return Ok((id, None));
        }
        let known = self.announced.get(id as usize).and_then(Option::as_ref);
        let (subscription, path) = known.ok_or(ClientError::UnknownId)?;
        Ok((*subscription, Some(path)))
    }

    /// A topic of a subscription by its id; nothing if the subscription has ended meanwhile.
    fn topic(&mut self, flags: u8, id: u32) -> Result<Option<KnownTopic<'_>>, ClientError> {
        let (id, path) = if flags & flag::ANNOUNCED == 0 {
            (id, None)
        } else {
            let known = self.announced.get(id as usize).and_then(Option::as_ref);
            let (id, path) = known.ok_or(ClientError::UnknownId)?;
            (*id, Some(path.as_str()))
        };
        // What was under way when a subscription ended.
        let known = self.subscriptions.get_mut(id as usize).and_then(Option::as_mut);
        let Some(known) = known.filter(|known| !known.ended) else { return Ok(None) };
        let keeps = known.options.has(subscribe::DELTAS);
        let topic = match path {
            None => &mut known.topic,
            Some(path) if known.topics.contains_key(path) => {
                known.topics.get_mut(path).ok_or(ClientError::UnknownId)?
            }
            Some(path) => known.topics.entry(path.to_owned()).or_insert_with(Topic::default),
        };
        Ok(Some(KnownTopic { subscription: id, path, keeps, topic }))
    }

    /// Tells which values are gone, of subscriptions whose values have all come.
    fn settled(&mut self, first: u32, last: u32, tell: &mut impl FnMut(Event<'_>)) {
        let done = self.unanswered.iter().filter(|(request, _)| (first..=last).contains(*request));
        for id in done.map(|(_, id)| *id) {
            let known = self.subscriptions.get_mut(id as usize).and_then(Option::as_mut);
            let settles = |known: &&mut Subscription| known.options.has(subscribe::OK_LAST);
            let Some(known) = known.filter(settles).filter(|known| !known.ended) else { continue };
            for path in known.gone() {
                tell(Event::Update(Update {
                    subscription: id,
                    path: path.as_deref(),
                    version: 0,
                    missed: 0,
                    repeated: false,
                    resumed: false,
                    content: Content::of(0),
                    removed: true,
                    properties: b"",
                    body: b"",
                    delta_bytes: None,
                }));
            }
        }
    }

    fn update(
        &mut self,
        update: &codec::Update<'_>,
        tell: &mut impl FnMut(Event<'_>),
    ) -> Result<(), ClientError> {
        let (codec, bytes_max) = (self.codec, self.bytes_max);
        let Some(known) = self.topic(update.flags, update.id)? else { return Ok(()) };
        let KnownTopic { subscription, path, keeps, topic } = known;
        let taken = topic.update(update, keeps.then_some(codec), bytes_max)?;
        let is_delta = update.flags & flag::DELTA != 0;
        tell(Event::Update(Update {
            subscription,
            path,
            version: taken.version,
            missed: taken.missed,
            repeated: taken.repeated,
            resumed: taken.resumed,
            content: Content::of(update.flags),
            removed: update.flags & flag::REMOVED != 0,
            properties: update.properties,
            body: if is_delta { topic.value() } else { update.data },
            delta_bytes: is_delta.then_some(update.data.len()),
        }));
        Ok(())
    }
}

/// The number of the next request: behind the last one they begin anew.
fn after(request: u32) -> u32 {
    request.wrapping_add(1).max(1)
}

/// A topic as one subscription sees it.
struct KnownTopic<'a> {
    subscription: u32,
    /// If the subscription is a pattern.
    path: Option<&'a str>,
    /// Whether values are kept for deltas.
    keeps: bool,
    topic: &'a mut Topic,
}

/// How far ahead of those known an announced id may be: those of ended subscriptions stay unused.
const ANNOUNCED_AHEAD_MAX: usize = 1 << 16;
