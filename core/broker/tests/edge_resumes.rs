//! What an edge asks of its source when it is there again, and what its clients get of that: the source is played by the
//! test, message by message.

#![allow(clippy::unwrap_used)]

use crate::support::upstream::upstream;
use crate::support::{Wish, World, destination};
use tiderace_base::{Close, CloseCode, ShardId, Span, Time};
use tiderace_broker::{BrokerOptions, Principal};
use tiderace_wire::{
    Flags, FromUpstream, Meta, Numbering, Position, Run, SubscriptionKey, ToUpstream, TopicSpec,
    UpstreamNumbers,
};

const EPOCH: u64 = 20;
const KEPT: SubscriptionKey = SubscriptionKey(0);
const OTHER: SubscriptionKey = SubscriptionKey(1);

/// A target, and since when; nothing: that it ends.
type Asked = Option<(String, Option<Position>)>;

/// An edge of which the test is the source.
struct Edge {
    world: World,
    link: Option<usize>,
}

impl Edge {
    fn new(topics: &[&str]) -> Edge {
        let upstreams = vec![upstream("source", topics)];
        let options = BrokerOptions { epoch: 1, upstreams, shards: 2, ..BrokerOptions::default() };
        Edge { world: World::new(1, options), link: None }
    }

    fn up(&mut self, upstream: u16, epoch: u64) -> usize {
        let link = self.world.open(0);
        self.link = Some(link);
        self.world.verified(link, Ok(Principal::server()));
        self.say(FromUpstream::Up { upstream, epoch });
        link
    }

    fn cut(&mut self) {
        self.world.close(self.link.take().unwrap());
        self.world.quiesce();
    }

    fn say(&mut self, said: FromUpstream) {
        self.say_only(said);
        self.world.quiesce();
    }

    /// The same, and nothing else happens.
    fn say_only(&mut self, said: FromUpstream) {
        let command = tiderace_wire::Command::Upstream(Box::new(said));
        self.world.command(self.link.unwrap(), command);
    }

    /// The key of what it was asked for last, which has that name and begins with values.
    fn asked_for(&mut self, name: &str) -> SubscriptionKey {
        let (key, asked) = self.asked().pop().unwrap();
        assert_eq!(asked, Some((name.to_owned(), None)));
        key
    }

    /// What the source is asked.
    fn asked(&mut self) -> Vec<(SubscriptionKey, Asked)> {
        let asked = self.world.clients[self.link.unwrap()].asked_upstream.drain(..);
        let asked = asked.map(|asked| match asked {
            ToUpstream::Subscribe { key, target, since } => {
                (key, Some((target.name().to_owned(), since)))
            }
            ToUpstream::Unsubscribe { key } => (key, None),
            other => panic!("{other:?}"),
        });
        asked.collect()
    }

    fn subscribe(&mut self, target: &str) -> usize {
        // Another shard than that of the connection to the source.
        let client = self.world.connect(1, "ann");
        self.subscribe_as(client, Wish { recoverable: true, ..Wish::to(target) });
        client
    }

    fn subscribe_as(&mut self, client: usize, wish: Wish) {
        self.world.subscribe(client, 1, wish);
        self.world.quiesce();
    }

    /// What is under way is done.
    fn sweep(&mut self) {
        for _ in 0..4 {
            self.world.brokers[0].work(self.world.now, &mut Default::default());
            self.world.quiesce();
        }
    }

    /// Time passes until nobody waits for the source any longer.
    fn wait(&mut self) {
        for _ in 0..12 {
            self.world.advance(Span::from_millis(50));
            self.world.quiesce();
        }
    }

    /// Why subscriptions of a client were ended.
    fn ended(&self, client: usize) -> Vec<CloseCode> {
        self.world.clients[client].subscriptions_ended.iter().map(|(_, code)| *code).collect()
    }

    fn bodies(&self, client: usize) -> Vec<&str> {
        self.world.clients[client].received.iter().map(|message| &*message.body).collect()
    }

    /// Up to where a client has everything that the source has numbered.
    fn position(&self, client: usize) -> Option<u64> {
        self.world.clients[client].position.number(numbering())
    }

    /// An edge that has `kept/**`, with a client that has the third value of `kept/a`.
    fn with_a_value() -> (Edge, usize) {
        let mut edge = Edge::new(&["**"]);
        edge.up(0, EPOCH);
        let client = edge.subscribe("topic:kept/**");
        assert_eq!(edge.asked(), [(KEPT, Some(("kept/**".to_owned(), None)))]);
        edge.say(value(KEPT, 3));
        edge.say(FromUpstream::Complete { key: KEPT });
        assert_eq!(edge.bodies(client), ["3"]);
        (edge, client)
    }
}

fn numbering() -> Numbering {
    Numbering::new(EPOCH, ShardId(0))
}

fn reached(number: u64) -> Position {
    let mut position = Position::new(EPOCH);
    position.advance_to(numbering(), number);
    position
}

/// The value of `kept/a` with that version, whose number is ten more.
fn value(key: SubscriptionKey, version: u64) -> FromUpstream {
    message(key, version, Flags::RETAIN, &version.to_string())
}

fn message(key: SubscriptionKey, version: u64, flags: Flags, body: &str) -> FromUpstream {
    let (to, meta) = (destination("topic:kept/a"), Meta { flags, expires_ms: None });
    let mut run = Run::single(to, Time::ZERO, b"", body.as_bytes(), meta);
    run.set_version(version);
    let (first, reached) = (10 + version, 10 + version);
    run.set_upstream(Some(UpstreamNumbers { numbering: numbering(), first, reached }));
    FromUpstream::Messages { key, run }
}

fn recovered(key: SubscriptionKey, complete: bool) -> FromUpstream {
    FromUpstream::Recovered { key, complete, continues: true }
}

fn refused(key: SubscriptionKey) -> FromUpstream {
    FromUpstream::Refused { key, close: Close::new(CloseCode::NotAuthorised, "no") }
}

#[test]
fn that_values_come_anew_to_who_was_answered_is_counted_before_they_come() {
    let mut edge = Edge::new(&["**"]);
    edge.up(0, EPOCH);
    let client = edge.subscribe("topic:kept/**");
    edge.say(value(KEPT, 3));
    edge.cut();
    edge.wait();
    assert_eq!(edge.bodies(client), ["3"]);
    for (times, version) in [(1, 6), (2, 9)] {
        edge.up(0, EPOCH);
        assert_eq!(edge.asked().last(), Some(&(KEPT, Some(("kept/**".to_owned(), None)))));
        assert_eq!(edge.world.metrics().upstream_resyncs, times);
        assert_eq!(edge.world.brokers[0].deputies()[0].resyncs, times);
        // The connection is lost again before everything has come.
        edge.say(value(KEPT, version));
        edge.cut();
    }
    assert_eq!(edge.bodies(client), ["3", "6", "9"]);
    let follows = edge.world.clients[client].received.iter().map(|message| message.follows);
    assert!(
        follows.into_iter().all(|follows| follows.is_none()),
        "the jump of the version tells it"
    );
}

#[test]
fn a_value_that_is_taken_away_is_so_once_whatever_brings_it_and_is_not_hidden() {
    let (mut edge, _) = Edge::with_a_value();
    let notices = edge.world.connect(1, "bob");
    edge.subscribe_as(notices, Wish { notices: true, ..Wish::to("topic:*/a") });
    assert_eq!(edge.asked_for("*/a"), OTHER);
    edge.say(value(OTHER, 3));
    edge.say(FromUpstream::Complete { key: OTHER });
    let removal = |key| message(key, 4, Flags::RETAIN_REMOVE, "");
    edge.say(removal(KEPT));
    edge.say(removal(OTHER));
    edge.say(value(KEPT, 5));
    assert_eq!(edge.bodies(notices), ["3", "", "5"]);
    let left = edge.world.clients[notices].notices.iter().find(|notice| notice.left.is_some());
    assert_eq!(left, None);
}

#[test]
fn what_was_left_to_one_that_is_refused_comes_by_those_that_left_it() {
    for is_live in [true, false] {
        let (mut edge, _) = Edge::with_a_value();
        let first = edge.subscribe("topic:kept/a");
        edge.cut();
        edge.up(0, EPOCH);
        let since = Some(reached(13));
        assert_eq!(edge.asked(), [(KEPT, Some(("kept/**".to_owned(), since.clone())))]);
        let second = edge.subscribe("topic:*/a");
        assert_eq!(edge.asked(), [(OTHER, Some(("*/a".to_owned(), None)))]);
        // What is before it comes by the other subscription.
        edge.say(value(OTHER, 6));
        assert_eq!(edge.bodies(first), ["3"]);
        if is_live {
            edge.say(FromUpstream::Complete { key: OTHER });
            assert_eq!(edge.bodies(second), ["3"]);
        }
        edge.say(refused(KEPT));
        if !is_live {
            assert_eq!(edge.asked(), [], "its values are still to come");
            edge.say(value(OTHER, 7));
            edge.say(FromUpstream::Complete { key: OTHER });
            assert_eq!(edge.bodies(second), [""; 0], "it is not answered with what is old");
        }
        assert_eq!(edge.asked(), [(OTHER, None)]);
        // What comes until it has ended comes again.
        edge.say(value(OTHER, 8));
        edge.say(FromUpstream::Reached { numbering: numbering(), sequence: 18 });
        assert_eq!(edge.position(first), Some(13), "it lacks what is behind that");
        edge.say(FromUpstream::Ended { key: OTHER });
        assert_eq!(edge.asked(), [(OTHER, Some(("*/a".to_owned(), since)))]);
        edge.say(recovered(OTHER, true));
        (4..=8).for_each(|version| edge.say(value(OTHER, version)));
        edge.say(FromUpstream::Complete { key: OTHER });
        assert_eq!(edge.bodies(first), ["3", "4", "5", "6", "7", "8"]);
        let all = ["3", "4", "5", "6", "7", "8"];
        assert_eq!(edge.bodies(second), if is_live { &all[..] } else { &all[5..] });
        edge.say(value(OTHER, 9));
        assert_eq!((edge.position(first), edge.position(second)), (Some(19), Some(19)));
        assert_eq!(edge.world.metrics().upstream_resyncs, 0, "nothing is missing");
    }
}

#[test]
fn a_loss_while_one_goes_on_for_another_is_made_good_or_told() {
    for is_live in [true, false] {
        let (mut edge, _) = Edge::with_a_value();
        let first = edge.subscribe("topic:kept/a");
        edge.cut();
        edge.up(0, EPOCH);
        edge.asked();
        edge.subscribe("topic:*/a");
        edge.asked();
        edge.say(value(OTHER, 6));
        if is_live {
            edge.say(FromUpstream::Complete { key: OTHER });
        }
        edge.say(refused(KEPT));
        edge.cut();
        edge.up(0, EPOCH);
        let since = is_live.then(|| reached(13));
        let asked = edge.asked();
        assert!(asked.contains(&(OTHER, Some(("*/a".to_owned(), since)))), "{asked:?}");
        edge.say(refused(KEPT));
        if is_live {
            edge.say(recovered(OTHER, true));
            (4..=5).for_each(|version| edge.say(value(OTHER, version)));
        }
        edge.say(value(OTHER, 6));
        edge.say(FromUpstream::Complete { key: OTHER });
        let all = ["3", "4", "5", "6"];
        assert_eq!(edge.bodies(first), if is_live { &all[..] } else { &["3", "6"] });
    }
}

#[test]
fn what_has_not_changed_stays_when_not_all_is_known_that_has() {
    // There with its value, there without one, and not there; and without one that has yet to hear of its values, as an edge.
    let cases = [(Some(false), false), (Some(true), false), (None, false), (Some(true), true)];
    for (is_empty, complete) in cases {
        let (mut edge, client) = Edge::with_a_value();
        edge.cut();
        edge.up(0, EPOCH);
        if let Some(is_empty) = is_empty {
            let path = destination("topic:kept/a").path;
            let spec = TopicSpec::default().into();
            edge.say(FromUpstream::Joined { key: KEPT, path, spec, is_empty });
        }
        // Of another shard the source does not know what this node had.
        edge.say(recovered(KEPT, complete));
        edge.say(FromUpstream::Complete { key: KEPT });
        edge.wait();
        edge.world.brokers[0].work(edge.world.now, &mut Default::default());
        edge.world.quiesce();
        let now = edge.subscribe("topic:kept/**");
        let stays = is_empty == Some(false) || complete;
        assert_eq!(edge.bodies(now), if stays { &["3"][..] } else { &[] });
        assert_eq!(edge.bodies(client), if stays { &["3"][..] } else { &["3", ""] });
        let watcher = edge.world.connect(1, "ann");
        edge.subscribe_as(watcher, Wish { notices: true, ..Wish::to("topic:kept/**") });
        let told = &edge.world.clients[watcher].notices;
        assert_eq!(told.len(), usize::from(is_empty.is_some()), "{is_empty:?}: the topic itself");
    }
}

#[test]
fn who_is_told_that_something_is_missing_gets_values_from_before_it_was_all_there() {
    let (mut edge, _) = Edge::with_a_value();
    let client = edge.world.connect(0, "bob");
    let since = Some(reached(5));
    let wish = Wish { recoverable: true, since, ..Wish::to("topic:kept/**") };
    let token = edge.world.subscribe(client, 1, wish);
    edge.wait();
    assert_eq!(edge.asked(), [(OTHER, Some(("kept/**".to_owned(), Some(reached(5)))))]);
    edge.say(recovered(OTHER, false));
    edge.say(FromUpstream::Complete { key: OTHER });
    assert_eq!(edge.world.clients[client].recovered[&token], (false, 0));
    assert_eq!(edge.bodies(client), ["3"]);
}

#[test]
fn of_an_upstream_that_begins_anew_no_other_topics_begin_anew() {
    let upstreams = vec![upstream("one", &["*/x"]), upstream("other", &["kept/a"])];
    let options = BrokerOptions { epoch: 1, upstreams, shards: 2, ..BrokerOptions::default() };
    let mut edge = Edge { world: World::new(1, options), link: None };
    let other = edge.up(1, EPOCH);
    let client = edge.subscribe("topic:kept/a");
    edge.say(value(KEPT, 3));
    edge.say(FromUpstream::Complete { key: KEPT });
    assert_eq!(edge.bodies(client), ["3"]);
    edge.up(0, 10);
    edge.cut();
    edge.up(0, 11);
    assert_eq!(edge.world.clients[client].closed, None);
    // Its versions are still known: what comes again is no news.
    edge.link = Some(other);
    edge.say(value(KEPT, 3));
    assert_eq!(edge.bodies(client), ["3"]);
}

#[test]
fn who_listens_to_what_is_refused_when_the_source_is_there_again_is_told() {
    let (mut edge, of_pattern) = Edge::with_a_value();
    let of_topic = edge.subscribe("topic:kept/a");
    assert_eq!(edge.asked(), [], "the pattern brings it");
    edge.cut();
    edge.up(0, EPOCH);
    let since = Some(reached(13));
    assert_eq!(edge.asked(), [(KEPT, Some(("kept/**".to_owned(), since.clone())))]);
    edge.say(refused(KEPT));
    assert_eq!(edge.ended(of_pattern), [CloseCode::NotAuthorised]);
    // The topic may be given although the pattern is not.
    assert_eq!(edge.ended(of_topic), []);
    assert_eq!(edge.asked(), [(OTHER, Some(("kept/a".to_owned(), since)))]);
    edge.say(recovered(OTHER, true));
    edge.say(value(OTHER, 4));
    edge.say(FromUpstream::Complete { key: OTHER });
    edge.say(value(OTHER, 5));
    assert_eq!((edge.bodies(of_topic), edge.position(of_topic)), (vec!["3", "4", "5"], Some(15)));
    assert_eq!(edge.bodies(of_pattern), ["3"]);
    assert_eq!(edge.world.metrics().upstream_resyncs, 0, "nothing is missing");
    // Several subscriptions of one topic, one of them with other targets besides, and with a selection.
    let (several, same) = (edge.world.connect(1, "bob"), edge.world.connect(0, "eve"));
    let targets = ["kept/a", "kept/a", "here"].map(|path| format!("topic:{path}"));
    edge.subscribe_as(several, Wish { targets: targets.into(), ..Wish::to("topic:kept/a") });
    edge.subscribe_as(same, Wish { deltas: true, ..Wish::to("topic:kept/a") });
    let another = edge.subscribe("topic:here");
    let here = SubscriptionKey(2);
    assert_eq!(edge.asked(), [(here, Some(("here".to_owned(), None)))]);
    edge.say(FromUpstream::Complete { key: here });
    // Also what was live may be refused, since the source's rules have changed.
    edge.say(refused(OTHER));
    for client in [of_topic, several, same] {
        assert_eq!(edge.ended(client), [CloseCode::NotAuthorised]);
    }
    assert_eq!(edge.ended(another), []);
    assert_eq!(edge.world.brokers[0].deputies()[0].waiting, 0);
}

#[test]
fn what_was_refused_to_somebody_is_asked_for_again() {
    for (target, name) in [("topic:kept/a", "kept/a"), ("topic:kept/**", "kept/**")] {
        let mut edge = Edge::new(&["**"]);
        edge.up(0, EPOCH);
        let mut clients = vec![edge.subscribe(target)];
        for _ in 0..2 {
            let key = edge.asked_for(name);
            edge.say(refused(key));
            for client in clients.drain(..) {
                let refused = &edge.world.clients[client].refused;
                assert!(
                    matches!(refused[..], [(Some(_), CloseCode::NotAuthorised)]),
                    "{refused:?}"
                );
                assert_eq!(edge.ended(client), [], "it was never there");
            }
            // Who comes soon after waits, and however many come, it is asked for once.
            for _ in 0..3 {
                clients.push(edge.subscribe(target));
                edge.world.advance(Span::from_millis(300));
                edge.world.quiesce();
                assert_eq!(edge.asked(), []);
            }
            edge.world.advance(Span::from_millis(100));
            edge.world.quiesce();
        }
        let key = edge.asked_for(name);
        edge.say(value(key, 3));
        edge.say(FromUpstream::Complete { key });
        for client in clients {
            assert_eq!(edge.bodies(client), ["3"]);
        }
    }
}

/// As many as end in one call, and some.
#[test]
fn very_many_who_listen_to_what_is_refused_are_told_a_slice_at_a_time() {
    for (target, name) in [("topic:kept/a", "kept/a"), ("topic:kept/**", "kept/**")] {
        let mut edge = Edge::new(&["**"]);
        edge.up(0, EPOCH);
        let clients: Vec<usize> = (0..600).map(|_| edge.world.connect(1, "ann")).collect();
        for client in &clients {
            edge.world.subscribe(*client, 0, Wish::to(target));
        }
        edge.world.deliver_envelopes();
        let key = edge.asked_for(name);
        edge.say(value(key, 3));
        edge.say(FromUpstream::Complete { key });
        edge.say_only(refused(key));
        while edge.world.deliver_envelope_between(0, 1) {}
        let told = |edge: &Edge| {
            let all = clients.iter().map(|client| &edge.world.clients[*client]);
            all.filter(|client| !client.subscriptions_ended.is_empty()).count()
        };
        assert_eq!(told(&edge), 256);
        // One goes before it is told, and the key of another one stands for something else by then.
        edge.world.close(clients[0]);
        edge.world.unsubscribe(clients[1], 0);
        edge.world.subscribe(clients[1], 0, Wish::to("topic:here"));
        edge.world.work(1);
        assert_eq!(told(&edge), 512);
        edge.world.work(1);
        assert!(!edge.world.brokers[1].has_work());
        edge.world.quiesce();
        assert_eq!(told(&edge), 598);
        assert_eq!(edge.ended(clients[1]), []);
    }
}

#[test]
fn a_topic_waits_for_itself_when_the_pattern_that_was_to_bring_it_is_refused() {
    let mut edge = Edge::new(&["**"]);
    edge.up(0, EPOCH);
    let of_pattern = edge.subscribe("topic:kept/**");
    let of_topic = edge.subscribe("topic:kept/a");
    assert_eq!(edge.asked(), [(KEPT, Some(("kept/**".to_owned(), None)))]);
    edge.say(refused(KEPT));
    assert_eq!(edge.world.clients[of_pattern].refused.len(), 1);
    assert_eq!(edge.world.clients[of_topic].refused, []);
    assert_eq!(edge.asked(), [(OTHER, Some(("kept/a".to_owned(), None)))]);
    edge.say(value(OTHER, 3));
    edge.say(FromUpstream::Complete { key: OTHER });
    assert_eq!(edge.bodies(of_topic), ["3"]);
}

#[test]
fn values_of_what_is_refused_are_removed_and_other_topics_go_on() {
    for eager in [false, true] {
        let mut kept = upstream("source", &["kept/**"]);
        kept.eager = eager;
        let options =
            BrokerOptions { epoch: 1, upstreams: vec![kept], shards: 2, ..Default::default() };
        let mut edge = Edge { world: World::new(1, options), link: None };
        edge.up(0, EPOCH);
        // Its pattern names topics of this node besides.
        let client = edge.subscribe("topic:**");
        assert_eq!(edge.asked(), [(KEPT, Some(("kept/**".to_owned(), None)))]);
        edge.say(value(KEPT, 3));
        edge.say(FromUpstream::Complete { key: KEPT });
        edge.say(refused(KEPT));
        edge.sweep();
        assert_eq!((edge.bodies(client), edge.ended(client)), (vec!["3", ""], vec![]));
        edge.world.advance(Span::from_secs(1));
        // Somebody new has it asked for again, and gets nothing old.
        let late = edge.subscribe("topic:kept/**");
        assert_eq!(edge.asked(), [(KEPT, Some(("kept/**".to_owned(), None)))]);
        edge.say(refused(KEPT));
        assert_eq!(edge.bodies(late), [""; 0]);
        assert_eq!(edge.world.clients[late].refused.len(), 1);
        edge.world.advance(Span::from_secs(1));
        let third = edge.subscribe("topic:kept/**");
        edge.say(value(KEPT, 3));
        edge.say(FromUpstream::Complete { key: KEPT });
        assert_eq!(edge.bodies(third), ["3"], "it has not changed");
        assert_eq!(edge.bodies(client), ["3", "", "3"]);
    }
}

#[test]
fn a_topic_that_a_pattern_brings_goes_on_by_that_when_it_is_refused_itself() {
    let mut edge = Edge::new(&["**"]);
    edge.up(0, EPOCH);
    let client = edge.subscribe("topic:kept/a");
    edge.say(value(KEPT, 3));
    edge.say(FromUpstream::Complete { key: KEPT });
    edge.subscribe("topic:kept/**");
    edge.say(value(OTHER, 3));
    edge.say(FromUpstream::Complete { key: OTHER });
    edge.say(refused(KEPT));
    assert_eq!(edge.ended(client), []);
    edge.say(value(OTHER, 4));
    assert_eq!(edge.bodies(client), ["3", "4"]);
}

#[test]
fn a_topic_goes_on_from_where_its_pattern_was_although_another_one_brings_it_from_now_on() {
    let (mut edge, _) = Edge::with_a_value();
    let client = edge.subscribe("topic:kept/a");
    edge.cut();
    edge.up(0, EPOCH);
    edge.asked();
    edge.subscribe("topic:*/a");
    assert_eq!(edge.asked(), [(OTHER, Some(("*/a".to_owned(), None)))]);
    edge.say(refused(KEPT));
    let (third, since) = (SubscriptionKey(2), Some(reached(13)));
    assert_eq!(edge.asked(), [(third, Some(("kept/a".to_owned(), since)))]);
    edge.say(value(OTHER, 6));
    edge.say(FromUpstream::Complete { key: OTHER });
    edge.say(recovered(third, true));
    (4..=6).for_each(|version| edge.say(value(third, version)));
    edge.say(FromUpstream::Complete { key: third });
    edge.say(value(OTHER, 7));
    assert_eq!(edge.bodies(client), ["3", "4", "5", "6", "7"]);
    assert_eq!(edge.position(client), Some(17));
}

#[test]
fn nothing_stays_of_a_topic_that_is_refused_before_its_pattern() {
    let mut edge = Edge::new(&["kept/**"]);
    edge.up(0, EPOCH);
    let of_topic = edge.subscribe("topic:kept/a");
    edge.say(value(KEPT, 3));
    edge.say(FromUpstream::Complete { key: KEPT });
    edge.subscribe("topic:kept/**");
    edge.say(value(OTHER, 3));
    edge.say(FromUpstream::Complete { key: OTHER });
    let wide = edge.subscribe("topic:**");
    edge.asked();
    edge.say(refused(KEPT));
    edge.sweep();
    assert_eq!(edge.ended(of_topic), [], "the pattern brings it");
    edge.say(refused(OTHER));
    assert_eq!(edge.asked(), [(KEPT, Some(("kept/a".to_owned(), Some(reached(13)))))]);
    edge.sweep();
    edge.say(refused(KEPT));
    assert_eq!(edge.ended(of_topic), [CloseCode::NotAuthorised]);
    edge.sweep();
    assert_eq!(edge.bodies(wide).last(), Some(&""), "it is removed");
}

#[test]
fn who_subscribes_again_at_once_keeps_no_value_that_is_refused() {
    let (mut edge, _) = Edge::with_a_value();
    edge.say(refused(KEPT));
    // Before anything is swept.
    for _ in 0..3 {
        let client = edge.world.connect(1, "bob");
        edge.subscribe_as(client, Wish::to("topic:kept/**"));
        edge.sweep();
        edge.say(refused(KEPT));
        assert_eq!(edge.bodies(client), [""; 0]);
    }
    edge.sweep();
    assert_eq!(edge.world.brokers[0].deputies()[0].topics, 0);
}
