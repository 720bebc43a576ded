//! What topics are by the configuration.

use std::sync::Arc;

use anyhow::anyhow;
use tiderace_broker::{SlowConsumer, TopicPolicy, TopicSpec};
use tiderace_config::{
    ConflationWord, PriorityWord, SlowConsumer as SlowConsumerWord, TopicConfig, TopicsConfig,
    ValueType as ValueWord,
};
use tiderace_wire::{Conflation, HistorySpec, Priority, Removal, ValueType};

/// What a topic is that no rule describes.
pub(crate) fn usual(topics: &TopicsConfig) -> TopicSpec {
    TopicSpec {
        value: value(topics.value),
        series: topics.series,
        retain: topics.retain,
        history: HistorySpec { count: topics.history_count, age: topics.history_age },
        persistent: topics.persistent,
        deltas: topics.deltas,
        slow_consumer: slow_consumer(topics.slow_consumer),
        grace: topics.slow_consumer_grace,
        conflation: Conflation { merge: merges(topics.conflation), interval: topics.interval },
        priority: priority(topics.priority),
        presence: topics.presence,
        ..TopicSpec::default()
    }
}

/// What topics are that a rule describes.
pub(crate) fn policy(topics: &TopicsConfig, rule: &TopicConfig) -> anyhow::Result<TopicPolicy> {
    let base = usual(topics);
    let removal = match &rule.removal {
        None => None,
        Some(text) => {
            let removal =
                Removal::parse(text).map_err(|wrong| anyhow!("topic.removal {text:?} {wrong}"))?;
            Some(Arc::new(removal))
        }
    };
    let spec = TopicSpec {
        value: rule.value.map_or(base.value, value),
        series: rule.series.unwrap_or(base.series),
        retain: rule.retain.unwrap_or(base.retain),
        history: HistorySpec {
            count: rule.history_count.unwrap_or(base.history.count),
            age: rule.history_age.unwrap_or(base.history.age),
        },
        persistent: rule.persistent.unwrap_or(base.persistent),
        deltas: rule.deltas.unwrap_or(base.deltas),
        slow_consumer: rule.slow_consumer.map_or(base.slow_consumer, slow_consumer),
        grace: rule.slow_consumer_grace.unwrap_or(base.grace),
        conflation: Conflation {
            merge: rule.conflation.map_or(base.conflation.merge, merges),
            interval: rule.interval.unwrap_or(base.conflation.interval),
        },
        priority: rule.priority.map_or(base.priority, priority),
        presence: rule.presence.unwrap_or(base.presence),
        removal,
        ..base
    };
    Ok(TopicPolicy { pattern: rule.pattern.clone(), spec: Arc::new(spec) })
}

fn slow_consumer(word: SlowConsumerWord) -> SlowConsumer {
    match word {
        SlowConsumerWord::Block => SlowConsumer::Block,
        SlowConsumerWord::Conflate => SlowConsumer::Conflate,
        SlowConsumerWord::Disconnect => SlowConsumer::Disconnect,
        SlowConsumerWord::DropNewest => SlowConsumer::DropNewest,
        SlowConsumerWord::DropOldest => SlowConsumer::DropOldest,
    }
}

fn value(word: ValueWord) -> ValueType {
    match word {
        ValueWord::Any => ValueType::Any,
        ValueWord::Json => ValueType::Json,
        ValueWord::Text => ValueType::Text,
        ValueWord::Binary => ValueType::Binary,
        ValueWord::Int64 => ValueType::Int64,
        ValueWord::Double => ValueType::Double,
    }
}

fn merges(word: ConflationWord) -> bool {
    word == ConflationWord::Merge
}

fn priority(word: PriorityWord) -> Priority {
    match word {
        PriorityWord::Low => Priority::Low,
        PriorityWord::Default => Priority::Default,
        PriorityWord::High => Priority::High,
    }
}
