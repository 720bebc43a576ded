//! An edge of an edge: what becomes of consumers at the lowest node when the node between loses its upstream.

use super::nodes::Nodes;
use crate::support::upstream::upstream;
use crate::support::{Wish, World, for_seeds};
use tiderace_base::{CloseCode, ShardId, Time};
use tiderace_broker::{Principal, UpstreamTopics};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Browsing, Command, Destination, FromUpstream, Kind, Meta, OperationResult, Outcome, QueueStart,
    RunBuilder, SubscriptionKey, ToUpstream,
};

/// The source of the node between, played by the test.
struct Source {
    session: usize,
    /// The consumers that it has, by their keys, with the queue of each.
    consumers: Vec<(SubscriptionKey, String)>,
}

impl Source {
    /// It lets the node in.
    fn begin(middle: &mut World, epoch: u64) -> Source {
        let session = middle.open(0);
        middle.verified(session, Ok(Principal::server()));
        let source = Source { session, consumers: Vec::new() };
        source.say(middle, FromUpstream::Up { upstream: 0, epoch });
        source.say(middle, FromUpstream::Requests { taken: true, consumers: true });
        source
    }

    fn say(&self, middle: &mut World, said: FromUpstream) {
        middle.command(self.session, Command::Upstream(Box::new(said)));
    }

    /// Does what it is asked for, until nothing is.
    fn answer(&mut self, nodes: &mut Nodes) {
        loop {
            nodes.settle();
            let asked = std::mem::take(&mut nodes.source.clients[self.session].asked_upstream);
            if asked.is_empty() {
                return;
            }
            for asked in asked {
                let said = match asked {
                    ToUpstream::Consume { key, subscribe, .. } => {
                        self.consumers.push((key, subscribe.targets[0].name().to_owned()));
                        FromUpstream::Complete { key }
                    }
                    ToUpstream::Leave { key, .. } => {
                        self.consumers.retain(|(known, _)| *known != key);
                        FromUpstream::Ended { key }
                    }
                    ToUpstream::Settle { .. } | ToUpstream::Credit { .. } => continue,
                    other => panic!("{other:?}"),
                };
                self.say(&mut nodes.source, said);
            }
        }
    }

    /// Gives a message to the only consumer of a queue.
    fn give(&self, nodes: &mut Nodes, queue: &str, number: u64) {
        let of: Vec<_> = self.consumers.iter().filter(|(_, known)| known == queue).collect();
        let [(key, _)] = of[..] else { panic!("{:?}", self.consumers) };
        let path = Path::parse(queue).unwrap();
        let mut run = RunBuilder::new(Destination { kind: Kind::Queue, path }, Time::ZERO);
        run.finish(number.to_string().as_bytes(), Meta::default());
        let mut run = run.build();
        run.number(ShardId(0), number);
        let queued = FromUpstream::Queued { key: *key, redeliveries: 0, run };
        self.say(&mut nodes.source, queued);
        nodes.settle();
    }
}

fn chain(seed: u64) -> Nodes {
    Nodes::with(seed, 1, |options| {
        let queues = vec![Pattern::parse("q/**").unwrap()];
        options.upstreams = vec![UpstreamTopics { queues, ..upstream("top", &[]) }];
    })
}

#[test]
fn what_is_ended_between_ends_below_and_all_else_goes_on() {
    for_seeds(0..20, |seed| {
        let mut nodes = chain(seed);
        let mut source = Source::begin(&mut nodes.source, 7);
        let world = &mut nodes.edges[0].world;
        let ann = world.connect(world.brokers.len() - 1, "ann");
        let bob = world.connect(0, "bob");
        let follow = || Wish { browsing: Some(Browsing::Following), ..Wish::to("queue:q/shown") };
        let from = Wish { start: Some(QueueStart::Next), ..Wish::to("queue:q/from") };
        world.subscribe(ann, 1, follow());
        world.subscribe(ann, 2, from);
        world.subscribe(ann, 3, Wish::to("queue:q/b"));
        world.subscribe(bob, 1, Wish::to("queue:q/c"));
        source.answer(&mut nodes);
        for (queue, number) in [("q/shown", 1), ("q/from", 2), ("q/b", 3), ("q/c", 4)] {
            source.give(&mut nodes, queue, number);
        }
        assert_eq!((nodes.bodies(0, ann), nodes.bodies(0, bob)), (vec!["1", "2", "3"], vec!["4"]));
        // The node between loses its upstream, and so the places of what is shown and of what has begun at one.
        let link = nodes.edges[0].link.as_ref().map(|link| link.edge);
        nodes.source.close(source.session);
        nodes.settle();
        let world = &nodes.edges[0].world;
        let away = CloseCode::UpstreamAway;
        assert_eq!(world.clients[ann].subscriptions_ended, [(1, away), (2, away)]);
        let told = |client: usize| {
            let known = &world.clients[client];
            (known.refused.len(), known.closed, known.open)
        };
        assert_eq!((told(ann), told(bob)), ((0, None, true), (0, None, true)));
        assert!(world.clients[bob].subscriptions_ended.is_empty());
        assert_eq!(nodes.edges[0].link.as_ref().map(|link| link.edge), link, "the link is up");
        // What can go on does so, and what was ended has left its keys, here and between the nodes.
        let mut source = Source::begin(&mut nodes.source, 7);
        source.answer(&mut nodes);
        let again = nodes.edges[0].world.subscribe(ann, 1, follow());
        source.answer(&mut nodes);
        assert!(nodes.edges[0].world.is_confirmed(ann, again));
        for (queue, number) in [("q/b", 5), ("q/c", 6), ("q/shown", 7)] {
            source.give(&mut nodes, queue, number);
        }
        assert_eq!(source.consumers.len(), 3);
        assert_eq!(nodes.bodies(0, ann)[3..], ["5", "7"]);
        assert_eq!(nodes.bodies(0, bob)[1..], ["6"]);
        for client in [ann, bob] {
            nodes.edges[0].world.close(client);
        }
        source.answer(&mut nodes);
        assert!(source.consumers.is_empty());
        assert_eq!(nodes.edges[0].world.metrics().upstream_consumers, 0);
    });
}

#[test]
fn what_waits_to_be_said_of_a_consumer_that_was_ended_is_not_said_of_the_next() {
    let mut nodes = chain(1);
    let mut source = Source::begin(&mut nodes.source, 7);
    let ann = nodes.source.connect(0, "ann");
    let explicit = || Wish { explicit: true, window: Some(9), ..Wish::to("queue:q/a") };
    nodes.source.subscribe(ann, 1, explicit());
    source.answer(&mut nodes);
    source.give(&mut nodes, "q/a", 1);
    // So much is sent that what comes behind it waits for answers.
    for _ in 0..4_100 {
        nodes.source.publish(ann, "queue:q/b", "x");
    }
    let message = nodes.source.clients[ann].received[0].clone();
    let token = nodes.source.settle(ann, &message, Outcome::Accept);
    nodes.settle();
    let (key, _) = source.consumers.remove(0);
    source.say(
        &mut nodes.source,
        FromUpstream::Refused { key, close: CloseCode::NotAuthorised.into() },
    );
    nodes.settle();
    let known = &nodes.source.clients[ann];
    assert_eq!(known.subscriptions_ended, [(1, CloseCode::NotAuthorised)]);
    assert_eq!(known.refused, [(Some(token), CloseCode::DeliveryLost)], "it comes again");
    // Another one has its key there.
    nodes.source.subscribe(ann, 2, explicit());
    nodes.settle();
    let (mut published, mut consumes) = (0, Vec::new());
    loop {
        let asked = std::mem::take(&mut nodes.source.clients[source.session].asked_upstream);
        if asked.is_empty() {
            break;
        }
        for asked in asked {
            match asked {
                ToUpstream::Publish { request, .. } => {
                    published += 1;
                    let result = Ok(OperationResult::Done);
                    source.say(&mut nodes.source, FromUpstream::Answered { request, result });
                }
                ToUpstream::Consume { key, .. } => consumes.push(key),
                other => panic!("{other:?}"),
            }
        }
        nodes.settle();
    }
    assert_eq!((published, consumes), (4_100, vec![key]));
}
