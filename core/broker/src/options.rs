//! What can be chosen for a broker; made from the configuration by the server.

use std::sync::Arc;

use tiderace_base::{ShardId, Span};
use tiderace_queues::{FullPolicy, Policy, QueueOptions, Quotas};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Destination, DurableSubscription, Kind, Target, TopicSpec, VirtualHosts, host_of, is_durable,
    is_temporary, own_name, within_host,
};

use crate::Rules;
use crate::authorise::is_reserved;
use crate::limits::{LimitRule, limits_of};
use crate::maker::Maker;
use crate::places::{Place, PlaceSet};
use crate::principal::Principal;

/// Options for the topics that match; the first that matches counts.
#[derive(Clone, Debug)]
pub struct TopicPolicy {
    /// Which topics.
    pub pattern: Pattern,
    /// What they are, unless they were created as something else.
    pub spec: Arc<TopicSpec>,
}

/// Options for the queues that match; the first that matches counts.
#[derive(Clone, Debug)]
pub struct QueuePolicy {
    /// Which queues.
    pub pattern: Pattern,
    /// Their options.
    pub options: QueueOptions,
}

/// What can be chosen for services and those who call them.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Exchanges a responder may have open that does not say how many.
    pub window: u32,
    /// Calls of one service that may wait for a responder with room.
    pub calls_waiting_max: usize,
    /// Bytes of all calls that wait at one shard.
    pub calls_waiting_bytes_max: usize,
    /// Calls one session may have open.
    pub calls_open_max: usize,
    /// Bytes one session may have said in calls that nobody has taken yet.
    pub calls_bytes_max: usize,
    /// The longest timeout a caller may have.
    pub timeout_max: Span,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        ServiceOptions {
            window: 256,
            calls_waiting_max: 1024,
            calls_waiting_bytes_max: 64 << 20,
            calls_open_max: 10_000,
            calls_bytes_max: 32 << 20,
            timeout_max: Span::from_secs(600),
        }
    }
}

/// What can be chosen for durable subscriptions.
#[derive(Clone, Debug)]
pub struct DurableOptions {
    /// Those that are there from the start.
    pub configured: Vec<Arc<DurableSubscription>>,
    /// Those that one principal may make at one shard.
    pub per_principal_max: usize,
    /// Those that there may be at one shard.
    pub count_max: usize,
}

impl Default for DurableOptions {
    fn default() -> Self {
        DurableOptions { configured: Vec::new(), per_principal_max: 1_000, count_max: 100_000 }
    }
}

/// What one page of a snapshot has at most.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    /// Bytes of values; a single value may be larger.
    pub bytes: usize,
    /// Values.
    pub values: usize,
    /// Topics that are looked at for them: half a millisecond's worth.
    pub looked_at: usize,
}

impl Default for PageLimits {
    fn default() -> Self {
        PageLimits { bytes: 256 << 10, values: 1024, looked_at: 4096 }
    }
}

/// Another node, some of whose topics this one passes on.
#[derive(Clone, Debug)]
pub struct UpstreamTopics {
    /// Its name, for people.
    pub name: Arc<str>,
    /// Which topics are its own.
    pub topics: Vec<Pattern>,
    /// Which queues live there.
    pub queues: Vec<Pattern>,
    /// The shard that stands in for the homes of these topics and queues.
    pub shard: ShardId,
    /// How long a subscription there goes on after the last subscriber here has left.
    pub linger: Span,
    /// How long subscribers wait for a subscription there while it is away; then they get what is known.
    pub timeout: Span,
    /// After how long an absence its topics are removed here; absent: they stay.
    pub remove_after: Option<Span>,
    /// Whether all of its topics are subscribed to, whether somebody here asks for them or not.
    pub eager: bool,
    /// Whether it is asked for what clients here want to publish or do there.
    pub write: bool,
    /// The services that it is called for, as long as no client of this node serves them.
    pub services: Vec<Pattern>,
}

impl UpstreamTopics {
    /// Whether a topic is one of its own.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.topics.iter().any(|pattern| pattern.matches(path))
    }

    /// Whether all topics of a pattern are its own.
    pub(crate) fn has_all(&self, pattern: &Pattern) -> bool {
        self.topics.iter().any(|own| own.contains(pattern))
    }

    /// Its own patterns that have topics of another pattern. Those below `$` are every node's own.
    pub(crate) fn topics_among(&self, pattern: &Pattern) -> impl Iterator<Item = &Pattern> {
        let is_own = pattern.as_str().starts_with('$');
        self.topics.iter().filter(move |own| !is_own && own.overlaps(pattern))
    }

    /// What is to be subscribed to there for a pattern of somebody here: the pattern itself if all of its topics are its
    /// own, and else all of its own patterns that have some of them.
    pub(crate) fn targets_for(&self, pattern: &Pattern) -> Vec<Target> {
        let target = |pattern: &Pattern| match pattern.as_path() {
            Some(path) => Target::Exact(Destination { kind: Kind::Topic, path }),
            None => Target::Pattern(Kind::Topic, pattern.clone()),
        };
        if self.has_all(pattern) {
            return vec![target(pattern)];
        }
        self.topics_among(pattern).map(target).collect()
    }
}

/// What can be chosen for a broker.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// The virtual hosts.
    pub virtual_hosts: VirtualHosts,
    /// How many shards the node has.
    pub shards: usize,
    /// The nodes whose topics this one passes on.
    pub upstreams: Vec<UpstreamTopics>,
    /// Who may do what.
    pub rules: Rules,
    /// How often the rules have changed since the start.
    pub rules_version: u32,
    /// Whether logins are verified; if not, every name is believed (dev mode).
    pub verify_logins: bool,
    /// Bytes in a session's backlog above which it counts as slow.
    pub backlog_bytes_high: usize,
    /// Bytes below which it counts as fast again.
    pub backlog_bytes_low: usize,
    /// Bytes of the newest values of topics that may wait for a session which has not asked for more
    /// messages.
    pub deferred_bytes_max: usize,
    /// Bytes that one shard may keep of messages, names and unfinished input together; see
    /// [`tiderace_base::Memory`]. Above it every session's mark is the low one, all queues are full, and
    /// nothing new is kept.
    pub messages_bytes_max: usize,
    /// Bytes of one message; also of a value that a delta, a patch, a merge or a view makes.
    pub message_bytes_max: usize,
    /// Subscriptions one session may have.
    pub subscriptions_max: usize,
    /// Topic options, by pattern.
    pub topic_policies: Vec<TopicPolicy>,
    /// What all other topics are.
    pub topic_default: Arc<TopicSpec>,
    /// Queue options, by pattern.
    pub queue_policies: Vec<QueuePolicy>,
    /// Options of durable subscriptions.
    pub durables: DurableOptions,
    /// Whether persistent messages are taken into queues without a store, where they end with the server.
    pub persistent_in_memory: bool,
    /// Options of all other queues.
    pub queue_default: QueueOptions,
    /// What principals may have in queues.
    pub quotas: Quotas,
    /// What clients may have at a time, and how fast they may send and be sent to.
    pub limits: Vec<LimitRule>,
    /// Whether sessions show below `$sys/sessions/`.
    pub sessions_shown: bool,
    /// A number that nobody can guess, the same on all shards and another in each life of the node: from
    /// it the names of temporary destinations are made.
    pub temporary_secret: u128,
    /// Temporary queues one session may have.
    pub temporary_queues_max: usize,
    /// Bytes that may wait in the temporary queues of one session; one message alone may be larger.
    pub temporary_bytes_max: usize,
    /// Options of services.
    pub services: ServiceOptions,
    /// Views that are there from the start, with their names, in their order.
    pub views: Vec<(Path, Box<str>)>,
    /// How long a topic without subscribers and retained value is remembered.
    pub topic_idle: Span,
    /// How snapshots are divided.
    pub page: PageLimits,
    /// Which life of the node this is; numbers of messages are not compared between lives.
    pub epoch: u64,
    /// Bytes of recent messages kept on one shard for clients that come back.
    pub history_bytes_max: usize,
    /// Bytes of one topic's recent messages kept.
    pub history_bytes_per_topic: usize,
    /// How long recent messages are kept, and topics recorded after they had a recoverable
    /// subscriber.
    pub history_age: Span,
}

impl BrokerOptions {
    /// Whether views of that name come from the configuration when the server starts.
    pub(crate) fn configures_view(&self, name: &Path) -> bool {
        self.views.iter().any(|(configured, _)| configured == name)
    }

    /// The limits that apply to a client; the first of each kind.
    pub fn limits_of<'a>(
        &'a self,
        principal: &'a Principal,
    ) -> impl Iterator<Item = &'a LimitRule> {
        limits_of(&self.limits, principal)
    }

    /// The home of a destination.
    #[inline]
    pub(crate) fn home_of(&self, path: &Path) -> Place {
        if !self.upstreams.is_empty()
            && let Some(upstream) = self.upstream_of(path)
        {
            return Place::here(upstream.shard);
        }
        Place::here(tiderace_wire::home_of(path, self.shards))
    }

    /// The upstream whose own a topic is, if it is one's.
    #[cold]
    pub(crate) fn upstream_of(&self, path: &Path) -> Option<&UpstreamTopics> {
        let is_own = is_reserved(path) || is_temporary(path);
        self.upstreams.iter().find(|upstream| !is_own && upstream.has(path))
    }

    /// The homes that topics of a pattern may have: one, if all of them are those of an upstream.
    pub(crate) fn homes_of(&self, pattern: &Pattern) -> PlaceSet {
        match self.upstreams.iter().find(|upstream| upstream.has_all(pattern)) {
            Some(upstream) => PlaceSet::of(Place::here(upstream.shard)),
            None => PlaceSet::all(self.shards),
        }
    }

    /// What a topic is that was not created as something else.
    pub fn topic(&self, path: &Path) -> &Arc<TopicSpec> {
        self.topic_policies
            .iter()
            .find(|policy| policy.pattern.matches(path))
            .map_or(&self.topic_default, |policy| &policy.spec)
    }

    /// The options of a queue.
    pub fn queue(&self, path: &Path) -> QueueOptions {
        let policy = self.queue_policies.iter().find(|policy| policy.pattern.matches(path));
        let options = policy.map_or(&self.queue_default, |policy| &policy.options).clone();
        if is_durable(path) {
            // Publishers of topics neither wait for a durable subscription nor are refused for it.
            let full = match options.policy.full {
                FullPolicy::Block | FullPolicy::Reject => FullPolicy::DropHead,
                drops => drops,
            };
            let policy = Policy { full, mirrored: false, ..options.policy };
            return QueueOptions { policy, ..options };
        }
        if !is_temporary(path) {
            return options;
        }
        // Its session bounds it, and nobody waits for that; a reader of dead letters is not told
        // what was meant for one session alone.
        let policy =
            Policy { messages_max: 0, full: FullPolicy::Block, mirrored: false, ..options.policy };
        let (bytes_max, disk_bytes_max, dead_letter) = (usize::MAX, u64::MAX, String::new());
        QueueOptions { bytes_max, disk_bytes_max, dead_letter, policy, owner: None, ..options }
    }

    /// The same of one that somebody makes, who owns it unless the configuration says who does.
    pub(crate) fn queue_of(&self, path: &Path, maker: Maker<'_>) -> QueueOptions {
        let options = self.queue(path);
        let may_own = || !is_temporary(path) && !self.gathers_dead_letters(path);
        let owner = options.owner.or_else(|| maker.filter(|_| may_own()).cloned());
        QueueOptions { owner, ..options }
    }

    /// Whether dead letters of queues with different names go there: nobody is to pay for those of others.
    fn gathers_dead_letters(&self, path: &Path) -> bool {
        // In a virtual host they stay there, whatever host the option says.
        let (is_hosted, own) = (host_of(path).is_some(), own_name(path));
        let leads_here = |to: &str| own == if is_hosted { within_host(to) } else { to };
        let named = self.queue_policies.iter().map(|policy| &policy.options);
        named.chain([&self.queue_default]).any(|options| leads_here(&options.dead_letter))
    }

    /// Whether a queue and the topic of its name mirror each other: what is a session's alone, the server's own, or fed by
    /// patterns is no mirror.
    pub(crate) fn mirrors(&self, path: &Path) -> bool {
        let policy = self.queue_policies.iter().find(|policy| policy.pattern.matches(path));
        let options = policy.map_or(&self.queue_default, |policy| &policy.options);
        options.policy.mirrored && !is_durable(path) && !is_temporary(path) && !is_reserved(path)
    }

    /// Whether there are queues that are mirrored.
    pub(crate) fn mirrors_some(&self) -> bool {
        let mut policies = self.queue_policies.iter().map(|policy| &policy.options);
        self.queue_default.policy.mirrored || policies.any(|options| options.policy.mirrored)
    }

    /// The queues that are mirrored from the start, for the configuration names them.
    pub(crate) fn mirrors_named(&self) -> impl Iterator<Item = Path> + '_ {
        let paths = self.queue_policies.iter().filter_map(|policy| policy.pattern.as_path());
        paths.filter(|path| self.mirrors(path))
    }

    /// Whether the configuration has options for a queue by its name, without a wildcard.
    pub(crate) fn names_queue(&self, path: &Path) -> bool {
        self.queue_policies.iter().any(|policy| policy.pattern.as_path().as_ref() == Some(path))
    }

    /// What a temporary topic is: it keeps nothing and nothing is said of it.
    pub(crate) fn temporary_spec(&self) -> TopicSpec {
        let usual = TopicSpec::default();
        TopicSpec {
            slow_consumer: self.topic_default.slow_consumer,
            grace: self.topic_default.grace,
            priority: self.topic_default.priority,
            retain: false,
            series: false,
            persistent: false,
            presence: false,
            owner: None,
            removal: None,
            ..usual
        }
    }
}

impl Default for BrokerOptions {
    fn default() -> Self {
        BrokerOptions {
            virtual_hosts: VirtualHosts::default(),
            shards: 1,
            upstreams: Vec::new(),
            rules: Rules::allow_all(),
            rules_version: 0,
            verify_logins: false,
            backlog_bytes_high: 4 << 20,
            backlog_bytes_low: 1 << 20,
            deferred_bytes_max: 64 << 20,
            messages_bytes_max: 1 << 30,
            message_bytes_max: 16 << 20,
            subscriptions_max: 100_000,
            topic_policies: Vec::new(),
            topic_default: Arc::new(TopicSpec::default()),
            queue_policies: Vec::new(),
            durables: DurableOptions::default(),
            persistent_in_memory: false,
            queue_default: QueueOptions {
                bytes_max: 64 << 20,
                disk_bytes_max: 64 << 30,
                window: tiderace_wire::Prefetch { messages: 0, bytes: 640 << 10 },
                redeliveries_max: 20,
                dead_letter: "dlq/{queue}".to_owned(),
                idle: Span::from_secs(30),
                policy: Policy::default(),
                owner: None,
            },
            quotas: Quotas::default(),
            limits: Vec::new(),
            sessions_shown: false,
            temporary_secret: 0,
            temporary_queues_max: 256,
            temporary_bytes_max: 16 << 20,
            services: ServiceOptions::default(),
            views: Vec::new(),
            topic_idle: Span::from_secs(60),
            page: PageLimits::default(),
            epoch: 0,
            history_bytes_max: 64 << 20,
            history_bytes_per_topic: 1 << 20,
            history_age: Span::from_secs(120),
        }
    }
}
