//! All tests of this crate in one program, so that what they share is compiled once. Only `memory` is a
//! program of its own, since it counts the heap of the whole process.

#![allow(unreachable_pub)]

mod access_changes;
mod authorisation;
mod browse;
mod browsers;
mod budget;
#[path = "../fuzz/check.rs"]
mod check;
mod convergence;
mod corpus;
mod credit;
mod demand;
mod durable;
mod durable_queues;
mod durable_subscriptions;
mod edge_resumes;
mod edge_views;
mod edges;
mod ends;
#[path = "../../views/tests/examples/mod.rs"]
mod examples;
mod feeding;
mod feeding_answers;
mod graces;
mod histories;
mod holdings;
mod kept_views;
mod large_bodies;
mod lingering;
mod lives;
mod losses;
mod mirrors;
mod notices;
mod operations;
mod owners;
mod pressure;
mod priorities;
mod queue_features;
mod queue_operations;
mod queue_receipts;
mod queues;
mod quotas;
mod races;
mod recovery;
mod relays;
mod removals;
mod removals_in_outages;
mod selecting;
mod series;
mod server_topics;
mod services;
mod shared_feeds;
mod show_topic;
mod slices;
mod snapshots;
mod support;
mod swapped_queues;
mod temporary;
mod topic_pages;
mod topics;
mod transactions;
mod upstream_calls;
mod upstream_queues;
mod upstream_services;
mod view_ends;
mod view_histories;
mod viewing;
mod views;
mod virtual_hosts;
mod virtual_hosts_apart;
mod work;
