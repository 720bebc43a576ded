//! Views that follow topics of an upstream.

#![allow(clippy::unwrap_used)]

use crate::support::asking::{answer, path};
use crate::support::destination;
use crate::support::upstream::upstream;
use crate::viewing::Node;
use tiderace_base::{CloseCode, ShardId, Time};
use tiderace_broker::{BrokerOptions, Principal};
use tiderace_wire::{
    Command, Flags, FromUpstream, Meta, Numbering, Operation, Run, SubscriptionKey, Target,
    ToUpstream, UpstreamNumbers,
};

/// A node with an upstream of that life.
struct Edge {
    node: Node,
    link: usize,
    life: u64,
    next: u64,
}

impl Edge {
    fn new(shards: usize, views: &[(&str, &str)]) -> Edge {
        let views = views.iter().map(|(name, text)| (path(name), (*text).into())).collect();
        let upstreams =
            vec![upstream("london", &["fx/**", "news"]), upstream("paris", &["rates/**"])];
        let options = BrokerOptions { shards, upstreams, views, ..BrokerOptions::default() };
        let mut edge = Edge { node: Node::with(1, options), link: 0, life: 20, next: 1 };
        edge.connect(20);
        edge
    }

    /// The upstream is there, in that life.
    fn connect(&mut self, life: u64) {
        self.link = self.node.world.open(0);
        self.node.world.verified(self.link, Ok(Principal::server()));
        self.life = life;
        self.say(FromUpstream::Up { upstream: 0, epoch: life });
    }

    fn lose(&mut self) {
        self.node.world.close(self.link);
        self.node.rest();
    }

    fn say(&mut self, said: FromUpstream) {
        self.node.world.command(self.link, Command::Upstream(Box::new(said)));
        self.node.rest();
    }

    /// What is asked of the upstream since the last call: what is to be, and how much is to end.
    fn asked(&mut self) -> (Vec<(String, SubscriptionKey)>, usize) {
        self.node.rest();
        let asked = std::mem::take(&mut self.node.world.clients[self.link].asked_upstream);
        let (mut begun, mut ended) = (Vec::new(), 0);
        for asked in asked {
            match asked {
                ToUpstream::Subscribe { key, target: Target::Exact(topic), .. } => {
                    begun.push((topic.path.to_string(), key));
                }
                ToUpstream::Subscribe { key, target: Target::Pattern(_, pattern), .. } => {
                    begun.push((pattern.to_string(), key));
                }
                ToUpstream::Unsubscribe { .. } => ended += 1,
                other => panic!("{other:?}"),
            }
        }
        begun.sort_by(|one, other| one.0.cmp(&other.0));
        (begun, ended)
    }

    /// The only subscription that is asked for.
    fn asked_one(&mut self, what: &str) -> SubscriptionKey {
        let (begun, ended) = self.asked();
        let [(found, key)] = &begun[..] else { panic!("{begun:?}") };
        assert_eq!((found.as_str(), ended), (what, 0));
        *key
    }

    /// A value, or that there is none any more.
    fn message(&mut self, key: SubscriptionKey, topic: &str, version: u64, body: &str) {
        let flags = if body.is_empty() { Flags::RETAIN_REMOVE } else { Flags::RETAIN };
        let meta = Meta { flags, expires_ms: None };
        let to = destination(&format!("topic:{topic}"));
        let json = b"content-type:application/json\n";
        let mut run = Run::single(to, Time::ZERO, json, body.as_bytes(), meta);
        run.set_version(version);
        let numbering = Numbering::new(self.life, ShardId(0));
        let first = self.next;
        self.next += 1;
        run.set_upstream(Some(UpstreamNumbers { numbering, first, reached: first }));
        self.say(FromUpstream::Messages { key, run });
    }

    fn shown(&mut self, selector: &str) -> Vec<(String, String)> {
        let topics = self.node.fetch(selector).into_iter();
        let shown = topics.filter_map(|entry| {
            let body = entry.value?.message(0)?.body.to_vec();
            Some((entry.path.to_string(), String::from_utf8(body).unwrap()))
        });
        shown.collect()
    }

    fn refusal(&mut self, text: &str) -> CloseCode {
        let view = Operation::View { name: path("v"), text: Some(text.into()) };
        let token = self.node.operate(view);
        self.node.rest();
        answer(&self.node.world, self.node.client, token).unwrap().unwrap_err()
    }
}

fn pair(path: &str, value: &str) -> (String, String) {
    (path.to_owned(), value.to_owned())
}

const VIEW: &str = "map fx/** from london to ldn/<path(1)>";

#[test]
fn a_view_has_its_upstream_asked_for_what_it_follows_and_nothing_when_it_is_gone() {
    for (shards, is_configured) in [(1, true), (3, true), (1, false), (3, false)] {
        let views: &[(&str, &str)] = if is_configured { &[("v", VIEW)] } else { &[] };
        let mut edge = Edge::new(shards, views);
        if !is_configured {
            assert!(edge.asked().0.is_empty());
            edge.node.put("v", VIEW);
        }
        let key = edge.asked_one("fx/**");
        edge.message(key, "fx/EUR", 7, r#"{"bid":1}"#);
        edge.message(key, "fx/a/b", 1, "2");
        edge.say(FromUpstream::Complete { key });
        let both = [pair("ldn/EUR", r#"{"bid":1}"#), pair("ldn/a/b", "2")];
        assert_eq!(edge.shown("ldn/**"), both, "{shards} {is_configured}");
        edge.message(key, "fx/EUR", 8, r#"{"bid":2}"#);
        edge.message(key, "fx/a/b", 2, "");
        assert_eq!(edge.shown("ldn/**"), [pair("ldn/EUR", r#"{"bid":2}"#)]);
        // Another view of the same pattern costs the upstream nothing; the last to go gives it up.
        edge.node.put("w", "map fx/** to all/<path(1)>");
        assert_eq!(edge.shown("all/**"), [pair("all/EUR", r#"{"bid":2}"#)]);
        assert!(edge.asked().0.is_empty());
        if !is_configured {
            edge.node.remove_view("v");
            edge.node.remove_view("w");
            edge.node.advance(400);
            edge.node.advance(400);
            assert_eq!(edge.asked(), (Vec::new(), 1));
            assert_eq!((edge.shown("ldn/**"), edge.shown("all/**")), (vec![], vec![]));
        }
    }
}

#[test]
fn outputs_follow_when_the_upstream_is_away_and_comes_back() {
    let mut edge = Edge::new(2, &[("v", VIEW)]);
    let key = edge.asked_one("fx/**");
    edge.message(key, "fx/EUR", 1, "1");
    edge.message(key, "fx/GBP", 1, "1");
    edge.say(FromUpstream::Complete { key });
    edge.lose();
    let both = [pair("ldn/EUR", "1"), pair("ldn/GBP", "1")];
    assert_eq!(edge.shown("ldn/**"), both, "what is known stays");
    // In another life, with another value and without one of the topics.
    edge.connect(21);
    let key = edge.asked_one("fx/**");
    edge.say(FromUpstream::Recovered { key, complete: false, continues: false });
    edge.message(key, "fx/EUR", 1, "2");
    edge.say(FromUpstream::Complete { key });
    assert_eq!(edge.shown("ldn/**"), [pair("ldn/EUR", "2")]);
}

#[test]
fn a_view_of_one_upstream_follows_no_other_topics() {
    let mut edge = Edge::new(1, &[]);
    edge.node.put("v", "map ** from london to ldn/<path(0)>");
    let (begun, _) = edge.asked();
    let names: Vec<&str> = begun.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["fx/**", "news"], "nothing of the other upstream");
    edge.node.set("own", "1");
    edge.message(begun[1].1, "news", 3, "2");
    assert_eq!(edge.shown("ldn/**"), [pair("ldn/news", "2")]);
    edge.node.put("v", "map own to copy");
    assert_eq!((edge.shown("ldn/**"), edge.shown("copy")), (vec![], vec![pair("copy", "1")]));
    assert_eq!(edge.refusal("map a from rome to b"), CloseCode::BadView);
    assert_eq!(edge.refusal("map a to fx/b"), CloseCode::BadView);
    // Where that shows later it is a problem of the view.
    edge.node.put("p", "map own to fx/<path(0)>");
    edge.node.advance(1_100);
    edge.node.advance(1_100);
    let shown = edge.node.shown("p").unwrap();
    assert!(shown["last_problem"].as_str().unwrap().contains("upstream london"), "{shown}");
}

#[test]
fn topics_of_an_upstream_are_inserted() {
    for shards in [1, 3] {
        let mut edge = Edge::new(shards, &[]);
        edge.node.set("own/1", r#"{"currency":"EUR"}"#);
        edge.node.put(
            "v",
            "map own/* insert fx/<scalar(/currency)> at /rate or null to shown/<path(1)>",
        );
        let key = edge.asked_one("fx/EUR");
        edge.message(key, "fx/EUR", 4, "1.1");
        edge.say(FromUpstream::Complete { key });
        let value = r#"{"currency":"EUR","rate":1.1}"#;
        assert_eq!(edge.shown("shown/*"), [pair("shown/1", value)]);
        edge.message(key, "fx/EUR", 5, "1.2");
        let value = r#"{"currency":"EUR","rate":1.2}"#;
        assert_eq!(edge.shown("shown/*"), [pair("shown/1", value)]);
        edge.node.remove_view("v");
        edge.node.advance(400);
        edge.node.advance(400);
        assert_eq!(edge.asked(), (Vec::new(), 1), "{shards}");
    }
}
