//! Durable subscriptions that are there from the start, and how many others there may be.

use tiderace_topics::Pattern;

use crate::kind::Kind;
use crate::spec::DefaultValue::{Absent, Is, Required};
use crate::spec::section;

const COUNT: Kind = Kind::Integer { min: 1, max: 10_000_000 };

section! {
    /// How many [durable subscriptions](subscriptions.md) clients may make.
    "subscriptions" TABLE SubscriptionsConfig {
        /// Those of one principal, at each shard.
        "principal_max" principal_max: usize = Is("1000"), COUNT;
        /// Those of all together, at each shard.
        "count_max" count_max: usize = Is("100000"), COUNT;
    }
}

section! {
    /// Durable subscriptions that are there from the start. Their bounds are those of the queue `dsub/NAME` (`[[queue]]`).
    "subscription" LIST SubscriptionConfig {
        /// Its name: a path such as `audit`; its queue is `dsub/audit`.
        "name" name: String = Required, Kind::Text;
        /// The topics that feed it.
        "topics" topics: Vec<Pattern> = Required, Kind::List(&Kind::Pattern);
        /// Only messages that match this SQL-92 condition on their properties.
        "selector" selector: Option<String> = Absent, Kind::Text;
    }
}
