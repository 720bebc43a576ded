//! Feeds: sessions without a client that publish made-up data, for demonstrations and load tests.
//!
//! Each shard has one session per feed, which publishes the topics whose home is that shard, so a
//! message crosses between shards only on its way to subscribers. Relies on the event loop for its
//! turns: a feed publishes when its deadline has come, and is left alone while subscribers that do not
//! keep up hold it back. Invariant: a call publishes about a burst of bodies at most, so a feed
//! without a rate alternates with everything else that the shard does.

mod pace;
mod pairs;
mod quotes;
mod random;
mod timed;
mod unix;

use std::sync::Arc;

use tiderace_base::{Close, Now, Span, Time};
use tiderace_config::{Config, FeedConfig, FeedKind};
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Context, Delivery, Destination, Flags, Kind, Meta, Open, Opening, Output, Progress,
    Reply, Session, Subscribe, SubscriptionKey, Target, properties,
};

use pace::{Pace, Rate};
use quotes::Quotes;
use random::Random;
use timed::Timed;
use unix::UnixClock;

/// The sessions that each shard is to open: the configured feeds and, in development mode, the one
/// that its page shows.
pub(crate) fn internal_sessions(config: &Config, development: bool) -> Vec<Arc<Open>> {
    let demo = (development && config.development.quotes).then(demo);
    let feeds = config.feeds.iter().cloned().chain(demo);
    feeds.map(internal_session).collect()
}

fn internal_session(feed: FeedConfig) -> Arc<Open> {
    Arc::new(move |opening| Box::new(Feed::new(&feed, opening)))
}

/// What development mode publishes.
fn demo() -> FeedConfig {
    FeedConfig {
        kind: FeedKind::Quotes,
        path: "demo/fx".to_owned(),
        topics: 1000,
        rate: 500,
        size: 1024,
        burst: 256 << 10,
        retain: None,
        control: false,
    }
}

/// The session of one feed on one shard.
struct Feed {
    source: Source,
    /// Those whose home is this shard, in the order of their numbers.
    topics: Vec<Destination>,
    properties: Vec<u8>,
    meta: Meta,
    burst_bytes: usize,
    pace: Pace,
    unix: UnixClock,
    published: u64,
    /// How many topics have got their first value already; all of them, if values are not kept.
    opened: usize,
    body: Vec<u8>,
    /// Where it is told its rate, until it has subscribed there.
    control: Option<Destination>,
    /// What it was told and has not yet taken in.
    told: Option<Rate>,
    /// When to look at that.
    look_at: Time,
}

/// What makes the bodies.
enum Source {
    Quotes(Quotes),
    Timed(Timed),
    TimedText(Timed),
}

impl Feed {
    fn new(config: &FeedConfig, opening: &Opening<'_>) -> Feed {
        let (mut numbers, mut topics) = (Vec::new(), Vec::new());
        for number in 0..config.topics {
            let name = match config.kind {
                FeedKind::Quotes => pairs::name(number),
                FeedKind::Timed | FeedKind::TimedText => number.to_string(),
            };
            // A prefix that makes no path has been refused with the configuration.
            let Ok(path) = Path::parse(&format!("{}/{name}", config.path)) else { continue };
            let destination = Destination { kind: Kind::Topic, path };
            if destination.home(opening.shards) == opening.shard {
                numbers.push(number);
                topics.push(destination);
            }
        }
        let (source, content_type, retain) = match config.kind {
            FeedKind::Quotes => {
                let random = Random::new(u64::from(opening.shard.0) + 1);
                (Source::Quotes(Quotes::new(&numbers, random)), "application/json", true)
            }
            FeedKind::Timed => {
                (Source::Timed(Timed::new(config.size)), "application/octet-stream", false)
            }
            FeedKind::TimedText => {
                (Source::TimedText(Timed::new(config.size)), "text/plain", false)
            }
        };
        let rate = match (config.control, config.rate) {
            (true, _) => Rate::Stopped,
            (false, 0) => Rate::Unlimited,
            (false, rate) => Rate::PerSecond(rate),
        };
        let control = Path::parse(&format!("{}/control", config.path)).ok();
        let control = control.filter(|_| config.control && !topics.is_empty());
        let retain = config.retain.unwrap_or(retain);
        let flags = if retain { Flags::RETAIN } else { Flags::NONE };
        let mut properties = Vec::new();
        properties::append(&mut properties, "content-type", content_type);
        Feed {
            source,
            pace: Pace::new(opening.now.time, rate, topics.len(), config.topics),
            // A page that is opened at once is to find them all, not those that chance has chosen so far.
            opened: if retain && rate != Rate::Stopped { 0 } else { topics.len() },
            topics,
            properties,
            meta: Meta { flags, expires_ms: None },
            burst_bytes: config.burst,
            unix: UnixClock::new(opening.now),
            published: 0,
            body: Vec::new(),
            look_at: if control.is_some() { opening.now.time } else { Time::NEVER },
            control: control.map(|path| Destination { kind: Kind::Topic, path }),
            told: None,
        }
    }

    /// Subscribes to the control topic, and follows what was said there.
    fn listen(&mut self, now: Now, context: &mut Context<'_>) {
        if now.time < self.look_at {
            return;
        }
        self.look_at = now.time + LOOK_INTERVAL;
        if let Some(control) = self.control.take() {
            let target = Target::Exact(control);
            let subscribe = Subscribe::new(SubscriptionKey(0), vec![target]);
            context.commands.push(Command::Subscribe(Box::new(subscribe)));
        }
        if let Some(rate) = self.told.take() {
            self.pace.set(now.time, rate);
        }
    }

    /// Publishes the next message that is due to its topic; how many bytes it has.
    fn publish_next(&mut self, now: Now, due: Time, context: &mut Context<'_>) -> usize {
        let at = match &mut self.source {
            Source::Quotes(quotes) => quotes.choose(),
            Source::Timed(_) | Source::TimedText(_) => {
                let in_turn = self.published % self.topics.len().max(1) as u64;
                usize::try_from(in_turn).unwrap_or(0)
            }
        };
        self.publish(now, due, at, context)
    }

    /// Publishes a message that was due at that time to one topic; how many bytes it has.
    fn publish(&mut self, now: Now, due: Time, at: usize, context: &mut Context<'_>) -> usize {
        self.body.clear();
        let unix_ns = self.unix.at(due);
        match &mut self.source {
            Source::Quotes(quotes) => quotes.write(at, now.wall_ms, &mut self.body),
            Source::Timed(timed) => timed.write(unix_ns, self.published, &mut self.body),
            Source::TimedText(timed) => timed.write_text(unix_ns, &mut self.body),
        }
        self.published += 1;
        let Some(topic) = self.topics.get(at) else { return 0 };
        context.commands.message(topic).extend_from_slice(&self.properties);
        context.commands.publish(&self.body, self.meta, None);
        self.body.len()
    }
}

impl Session for Feed {
    fn receive(
        &mut self,
        _now: Now,
        input: &[u8],
        _context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        Ok(Progress { consumed: input.len(), need: 0 })
    }

    fn reply(&mut self, _now: Now, _reply: Reply, _context: &mut Context<'_>) -> Result<(), Close> {
        // A message that was refused, because memory is full for instance, is as lost as a price that
        // nobody looked at.
        Ok(())
    }

    fn deliver(&mut self, _now: Now, delivery: &Delivery<'_>, _output: &mut Output<'_>) {
        let last = delivery.to.checked_sub(1).and_then(|last| delivery.run.run().message(last));
        if let Some(rate) = last.and_then(|message| Rate::parse(message.body)) {
            self.told = Some(rate);
        }
    }

    fn deadline(&self) -> Time {
        if self.opened < self.topics.len() {
            return Time::ZERO;
        }
        self.pace.next().min(self.look_at)
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.unix.learn(now);
        self.listen(now, context);
        let mut bytes = 0;
        while bytes < self.burst_bytes && self.opened < self.topics.len() {
            bytes += self.publish(now, now.time, self.opened, context).max(MESSAGE_COST_BYTES);
            self.opened += 1;
        }
        self.pace.begin(now.time);
        while bytes < self.burst_bytes
            && let Some(due) = self.pace.take(now.time)
        {
            bytes += self.publish_next(now, due, context).max(MESSAGE_COST_BYTES);
        }
        Ok(())
    }

    fn goodbye(&mut self, _close: &Close, _output: &mut Output<'_>) {}

    fn is_established(&self) -> bool {
        true
    }
}

/// How soon a word on the control topic is followed.
const LOOK_INTERVAL: Span = Span::from_millis(20);
/// What a message costs at least, in bytes.
const MESSAGE_COST_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
    use std::collections::BTreeMap;

    use tiderace_base::ShardId;
    use tiderace_wire::{Commands, Framing, OutQueue, Run, SharedRun};

    use super::*;

    const SECOND: Time = Time::from_nanos(1_000_000_000);

    fn config(kind: FeedKind, topics: usize, rate: u64) -> FeedConfig {
        FeedConfig { kind, topics, rate, ..demo() }
    }

    fn feed(kind: FeedKind, topics: usize, rate: u64, shard: u16, shards: usize) -> Feed {
        with(config(kind, topics, rate), shard, shards)
    }

    fn with(config: FeedConfig, shard: u16, shards: usize) -> Feed {
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let now = Now { time: SECOND, wall_ms: 5_000 };
        let opening =
            Opening { shard: ShardId(shard), shards, ..Opening::new(Framing::Stream, peer, now) };
        Feed::new(&config, &opening)
    }

    /// The messages of one call: paths and bodies.
    fn expire(feed: &mut Feed, at: Time) -> Vec<(String, Vec<u8>)> {
        let (mut commands, mut queue) = (Commands::new(), OutQueue::new());
        let mut context =
            Context::new(&mut commands, Output { framing: Framing::Stream, queue: &mut queue });
        feed.expire(Now { time: at, wall_ms: 7_000 }, &mut context).unwrap();
        let mut messages = Vec::new();
        for command in commands.drain() {
            let Command::Publish { run, .. } = command else { continue };
            let path = run.destination().path.to_string();
            messages.extend(run.messages().map(|message| (path.clone(), message.body.to_vec())));
        }
        messages
    }

    #[test]
    fn shards_share_the_topics_and_the_rate() {
        let mut counts = BTreeMap::new();
        for shard in 0..4 {
            let mut feed = feed(FeedKind::Timed, 10, 1000, shard, 4);
            for _ in 0..2 {
                for (path, _) in expire(&mut feed, SECOND + Span::from_millis(500)) {
                    *counts.entry(path).or_insert(0) += 1;
                }
            }
        }
        assert_eq!(counts.len(), 10);
        assert!(counts.values().all(|count| (49..=51).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_timed_message_says_when_it_was_due() {
        let mut feed = feed(FeedKind::Timed, 3, 10, 0, 1);
        let messages = expire(&mut feed, SECOND + Span::from_millis(250));
        let stamps: Vec<u64> = messages
            .iter()
            .map(|(_, body)| u64::from_be_bytes(body[..8].try_into().unwrap()))
            .collect();
        assert_eq!(stamps, [5_000_000_000, 5_100_000_000, 5_200_000_000]);
        assert_eq!(feed.deadline(), SECOND + Span::from_millis(300));
        assert!(messages.iter().all(|(_, body)| body.len() == 1024));
    }

    #[test]
    fn without_a_rate_a_call_publishes_a_burst_and_is_wanted_again_at_once() {
        let mut feed = feed(FeedKind::Timed, 50, 0, 0, 1);
        for _ in 0..3 {
            assert!(feed.deadline() <= SECOND);
            let messages = expire(&mut feed, SECOND);
            assert_eq!(messages.len(), demo().burst / 1024);
        }
    }

    #[test]
    fn quotes_are_json_of_a_kilobyte_and_change_little() {
        let mut feed = feed(FeedKind::Quotes, 1, 0, 0, 1);
        let messages = expire(&mut feed, SECOND);
        let parsed: serde_json::Value = serde_json::from_slice(&messages[0].1).unwrap();
        assert_eq!(messages[0].0, "demo/fx/EUR-USD");
        assert_eq!(parsed["pairName"], "EUR-USD");
        assert_eq!(parsed["timestamp"], "7000");
        assert!(parsed["bid"].as_f64() < parsed["ask"].as_f64());
        assert_eq!(parsed["pairs"].as_array().unwrap().len(), 2);
        for pair in messages.windows(2) {
            let ((_, before), (_, after)) = (&pair[0], &pair[1]);
            assert!((900..1_050).contains(&after.len()), "{}", after.len());
            let same = before.iter().zip(after).filter(|(one, other)| one == other).count();
            assert!(same + 60 > after.len(), "{same} of {}", after.len());
        }
        assert!(messages.windows(2).filter(|pair| pair[0].1 != pair[1].1).count() > 100);
    }

    #[test]
    fn all_topics_have_values_before_any_changes() {
        let mut feed = feed(FeedKind::Quotes, 1000, 1, 0, 1);
        let mut messages = Vec::new();
        while feed.deadline() == Time::ZERO {
            messages.extend(expire(&mut feed, SECOND));
        }
        // What is due by the feed's pace comes behind them.
        let first = messages.iter().take(1000).map(|(path, _)| path);
        let paths: std::collections::BTreeSet<_> = first.collect();
        assert_eq!((paths.len(), messages.len() < 1010), (1000, true));
    }

    #[test]
    fn a_controlled_feed_is_stopped_until_it_is_told() {
        let mut feed =
            with(FeedConfig { control: true, ..config(FeedKind::TimedText, 1, 0) }, 0, 1);
        let mut at = feed.deadline();
        assert_eq!((at, expire(&mut feed, at).len()), (SECOND, 0));
        for (word, messages) in [("max", demo().burst / 1024), ("stop", 0), ("1000", 1)] {
            let path = Path::parse("demo/fx/control").unwrap();
            let topic = Destination { kind: Kind::Topic, path };
            let run = Run::single(topic, at, b"", word.as_bytes(), Meta::default());
            let run = SharedRun::new(Arc::new(run));
            let key = SubscriptionKey(0);
            let delivery = Delivery {
                key,
                run: &run,
                from: 0,
                to: 1,
                redeliveries: 0,
                exchange: None,
                reached: 0,
            };
            let mut queue = OutQueue::new();
            let mut output = Output { framing: Framing::Stream, queue: &mut queue };
            feed.deliver(Now { time: at, wall_ms: 0 }, &delivery, &mut output);
            at = at + LOOK_INTERVAL;
            assert_eq!(expire(&mut feed, at).len(), messages, "{word}");
        }
    }

    #[test]
    fn nothing_of_its_own_is_nothing_to_do() {
        let feeds = (0..8).map(|shard| feed(FeedKind::Timed, 1, 10, shard, 8));
        let idle = feeds.filter(|feed| feed.deadline() == Time::NEVER).count();
        assert_eq!(idle, 7);
    }
}
